"""The views as people use them: with mouse and keys, on a phone, in the dark, with a token, without a gateway."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from pipeline.cli.files.recordings import Stream
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from tests.browser import chromium, showcase
from tests.browser.conftest import Open
from tests.browser.stage import TROUBLE, Stage, in_a_thread, publish, recordings, serving, settled
from tests.support.gateways import Tokens, sse, talk
from turnmill.identity import thread_uuid

WIDTHS = (390, 1440, 2560)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
THREAD = thread_uuid(showcase.THREAD, "acme")[0]
BROKEN_OFF = thread_uuid("weather-quito", None)[0]  # its worker died in the middle of a text
VIEWS = {
    "overview": "#/?range=24h&by=model",
    "threads": "#/threads",
    "search": "#/search?q=deploy",
    "thread": f"#/threads/{THREAD}",
    "pipeline": "#/pipeline",
    "dead letters": "#/dead-letters",
    "budgets": "#/budgets",
    "tokens": "#/tokens",
    "audit": "#/audit",
}


def ready(page: Page, view: str) -> None:
    """Wait until the view shows what it is there for."""
    shown = {
        "overview": ".chart[data-state=drawn] .u-over >> nth=5",
        "threads": ".threads .row >> nth=5",
        "search": ".hits .row",
        "thread": ".turn.agent",
        "pipeline": "details.group",
        "dead letters": ".letter",
        "budgets": "[aria-label=Webhooks] .state",
        "tokens": ".new-token",
        "audit": ".controls",
    }
    expect(page.locator(shown[view]).first).to_be_attached()


def labelled(user: str, tags: list[str]) -> Stream:
    info = {"user": user, "tags": tags}
    return Stream(
        "views", "vercel-ai", f"of {user}", f"run of {user}", "labelled", tuple(talk(2)), info, end="complete"
    )


def test_a_budget_that_is_used_up_is_marked(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/tokens")
    budget = {
        "name": "team",
        "tenant": "acme",
        "agent": None,
        "model": None,
        "labels": {"tag": "nightly"},
        "unit": "usd",
    }
    budget |= {"per": "day", "limit": 2.0, "used": 14.86, "ratio": 7.43}
    budget |= {"start": "2026-01-20T00:00:00.000Z", "end": "2026-01-21T00:00:00.000Z"}
    page.route("**/v1/budgets", lambda route: route.fulfill(json={"budgets": [budget], "as_of": None}))
    page.get_by_role("link", name="Budgets").click()
    row = page.locator("[aria-label=Budgets] .token")
    expect(row).to_contain_text("$14.86 of $2.00 in this day")
    expect(row).to_contain_text("acme, tag nightly")
    expect(row.locator(".chip.bad")).to_have_text("743 % used")
    expect(page.locator("[aria-label=Webhooks] .state")).not_to_have_text("Loading…")


def test_a_thread_shows_all_that_it_holds(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/{VIEWS['thread']}")
    ready(page, "thread")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Checkout fails")
    expect(page.locator(".turn.user")).to_contain_text("Why, and what do we do?")
    thinking = page.locator(".fold.thinking")
    thinking.locator("summary").click()
    expect(thinking).to_contain_text("a pool that is too small")
    search = page.locator(".fold.tool", has_text="search_logs")
    search.locator("summary").click()
    expect(search).to_contain_text("status:5xx path:/checkout")
    expect(search).to_contain_text("pool 4/4 in use")
    expect(page.locator(".fold.tool", has=page.get_by_text("error", exact=True))).to_contain_text("8814")
    image = page.locator(".image img")
    expect(image).to_be_visible()
    assert image.evaluate("one => one.naturalWidth") == 360
    expect(page.get_by_role("link", name="Orders runbook")).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(page.locator(".text strong", has_text="deploy 8841")).to_be_visible()
    expect(page.locator(".text pre")).to_contain_text("pool_size: 40")
    expect(page.locator(".below")).to_contain_text("Timeline writer")
    expect(page.locator(".turn.agent > footer").last).to_contain_text("tokens")

    tree = page.locator(".side .tree").first
    expect(tree.locator("li li li")).to_contain_text("Who needs a pool of 4?")
    tree.get_by_text("Who needs a pool of 4?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Who needs a pool of 4?")
    page.locator(".side").get_by_text("spawned from").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What changed in deploy 8841?")


def test_what_a_turn_had_shown_before_it_broke_off_is_marked(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{BROKEN_OFF}")
    seen = page.get_by_role("region", name="Not finished")
    expect(seen).to_contain_text("not finished")
    expect(seen).to_contain_text("Quito will be")
    expect(page.locator(".turn.agent")).to_contain_text("interrupted")


def test_filters_and_ranges(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/")
    page.get_by_role("group", name="Time range").get_by_text("6 hours").click()
    page.get_by_role("group", name="Group by").get_by_text("Agent").click()
    expect(page.locator(".chart").first.locator(".legend")).to_contain_text("support")
    expect(page.locator(".chart").first.locator(".legend")).to_contain_text("travel")
    page.get_by_label("Only one agent").focus()
    page.get_by_label("Only one agent").select_option("support")
    expect(page.get_by_label("Only one agent")).to_be_focused()
    page.get_by_role("button", name="Turns as a table", exact=True).click()
    table = page.get_by_role("region", name="Turns, as a table", exact=True)
    expect(table.locator("thead")).to_contain_text("support")
    expect(table.locator("thead")).not_to_contain_text("travel")
    assert "agent=support" in page.url
    page.reload()
    expect(page.get_by_label("Only one agent")).to_have_value("support")
    page.get_by_label("Percentile").select_option("p50")
    expect(page.locator(".chart", has_text="Latency").locator(".figure")).to_contain_text("p50")


def test_threads_are_found(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/{VIEWS['threads']}")
    ready(page, "threads")
    page.get_by_label("Search").fill("checkout FAILS")
    expect(page.locator(".threads .row")).to_have_count(1)
    assert "search=checkout" in page.url
    page.get_by_label("Search").fill("no such words anywhere")
    expect(page.get_by_text("No thread is like that")).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_label("Status").select_option("interrupted")
    expect(page.locator(".threads .row").first).to_be_visible()
    rows = page.locator(".threads .row")
    expect(rows.filter(has=page.get_by_text("interrupted", exact=True))).to_have_count(rows.count())
    page.get_by_label("Status").select_option("")
    page.get_by_label("Agent").fill("librarian")
    expect(page.locator(".threads .row").first).to_contain_text("Librarian")


def test_threads_are_sorted_and_narrowed(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/{VIEWS['threads']}")
    ready(page, "threads")
    by_cost = page.get_by_role("group", name="Sort by").get_by_role("button", name="Cost")
    by_cost.click()
    expect(by_cost).to_have_attribute("aria-pressed", "true")
    expect(page.locator("section .state")).to_have_text("Sorted among the 10,000 that were updated last")
    costs = [one.strip("$") for one in page.locator(".threads .row .cost").all_inner_texts()]
    known = [float(one) for one in costs if one != "–"]
    assert known == sorted(known, reverse=True)
    assert known[0] > 0
    assert costs[len(known) :] == ["–"] * (len(costs) - len(known)), "what is not known comes last"
    page.get_by_label("Tool").fill("search_logs")
    expect(page.locator(".threads .row").first).to_contain_text("Checkout fails")
    expect(page.locator(".threads .row")).to_have_count(1)
    model = page.locator(".threads .row .model").inner_text()
    page.get_by_label("Model").select_option(model)
    page.reload()
    expect(page.locator(".threads .row")).to_have_count(1)
    expect(page.get_by_label("Model")).to_have_value(model)
    assert all(part in page.url for part in ("sort=cost", "tool=search_logs", "model="))
    page.get_by_label("Cost").select_option("10")
    expect(page.get_by_text("No thread is like that")).to_be_visible()


def test_labels_narrow_the_list_and_group_the_figures(running: Stage, opened: Open) -> None:
    labels = {"zoe": ["beta", "eu"], "bob": ["beta"], "eve": []}
    publish(running.settings, [labelled(user, tags) for user, tags in labels.items()])
    settled(running)
    page = opened(f"{running.url}/{VIEWS['threads']}")
    rows = page.locator(".threads .row")

    def choice(kind: str) -> Locator:
        return page.locator("label.field", has=page.get_by_text(kind, exact=True)).locator("select")

    choice("Tag").select_option("beta")
    expect(rows).to_have_count(2)
    choice("User").select_option("zoe")
    expect(rows).to_have_count(1)
    assert rows.locator(".chip").all_inner_texts() == ["zoe", "beta", "eu"]
    assert "user=zoe" in page.url
    page.reload()
    expect(choice("Tag")).to_have_value("beta")
    expect(rows).to_have_count(1)
    choice("Tag").select_option("")
    choice("User").select_option("eve")
    expect(rows).to_contain_text("of eve")
    assert rows.locator(".chip").all_inner_texts() == ["eve"]
    page.goto(f"{running.url}/#/?range=24h&agent=labelled")
    page.get_by_role("group", name="Group by").get_by_text("User", exact=True).click()
    expect(page.locator(".chart").first.locator(".legend")).to_contain_text("zoe")
    page.get_by_role("button", name="Turns as a table", exact=True).click()
    table = page.get_by_role("region", name="Turns, as a table", exact=True)
    for user in labels:
        expect(table.locator("thead")).to_contain_text(user)


def test_figures_lead_to_their_threads(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/")
    page.locator(".tile").get_by_role("link", name="Errors").click()
    expect(page.get_by_label("Status")).to_have_value("interrupted")
    expect(page.get_by_label("Updated")).to_have_value("900")
    page.goto(f"{running.url}/#/?range=24h")
    ready(page, "overview")
    page.get_by_role("button", name="Cost as a table", exact=True).click()
    page.get_by_role("region", name="Cost, as a table", exact=True).get_by_role("link").first.click()
    expect(page.get_by_text("Threads that were there from")).to_be_visible()
    expect(page.locator(".threads .row").first).to_be_visible()
    page.get_by_role("link", name="At any time").click()
    expect(page.get_by_text("Threads that were there from")).to_be_hidden()
    page.goto(f"{running.url}/#/?range=24h&by=agent")
    ready(page, "overview")
    page.locator(".chart.opens .u-over").nth(2).click(position={"x": 5, "y": 100})
    expect(page.get_by_text("Threads that were there from")).to_be_visible()


def test_wide_screens_are_used(running: Stage, opened: Open) -> None:
    for view, address in VIEWS.items():
        page = opened(f"{running.url}/{address}", viewport={"width": 2560, "height": 1300})
        ready(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 2560
        if view in ("overview", "threads"):
            assert page.locator("main").evaluate("one => one.clientWidth") > 2000


def test_a_browser_without_a_language_draws_charts(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/nowhere")
    page.add_init_script(
        "Object.defineProperty(navigator, 'language', { get: () => 'en-US@posix', configurable: true })"
    )
    page.goto(f"{running.url}/?posix{VIEWS['overview']}")
    ready(page, "overview")


def test_tables_of_an_answer_are_tables(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/nowhere")
    text = "Before\\n| Name | `Cost` |\\n|:---|---:|\\n| a \\\\| b | **1** |\\n| c |\\n\\nAfter | no table\\n| alone |"
    page.evaluate(
        f"import('/static/js/markdown.js').then((one) => document.querySelector('main').append(one.markdown('{text}')))"
    )
    table = page.locator(".text table")
    assert table.locator("th").all_inner_texts() == ["Name", "Cost"]
    assert table.locator("td").all_inner_texts() == ["a | b", "1", "c", ""]
    expect(table.locator("strong")).to_have_text("1")
    assert page.locator(".text > p").all_inner_texts() == ["Before", "After | no table\n| alone |"]


def test_dead_letters_say_why(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/{VIEWS['dead letters']}")
    ready(page, "dead letters")
    letter = page.locator(".letter").first
    letter.locator("summary").click()
    expect(letter).to_contain_text("Refused on turnmill.events")
    expect(letter.locator("pre")).to_contain_text("thread_id")
    with page.expect_download() as saving:
        letter.get_by_role("button", name="Save the original").click()
    assert b"thread_id" in Path(saving.value.path()).read_bytes()
    page.get_by_label("Reason").select_option("too_large")
    expect(page.get_by_text("None of the newest has this reason")).to_be_visible()


def test_keys_are_enough(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipeline")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("checkout fails")
    expect(page.locator(".threads .row")).to_have_count(1)
    page.get_by_label("Search").blur()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    ready(page, "thread")
    page.keyboard.press("e")
    expect(page.locator("details.fold:not([open])")).to_have_count(0)
    page.keyboard.press("e")
    expect(page.locator("details.fold[open]")).to_have_count(0)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(running: Stage, opened: Open, view: str, scheme: str) -> None:
    page = opened(f"{running.url}/{VIEWS[view]}", color_scheme=scheme, reduced_motion="reduce")
    ready(page, view)
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in background[4:-1].split(",")) < 200) == (scheme == "dark"), background
    page.evaluate(chromium.axe())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        violations = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        assert [f"{width}: {each['id']}: {each['nodes'][0]['html'][:200]}" for each in violations] == []


@pytest.mark.parametrize("view", VIEWS)
def test_it_fits_a_phone(running: Stage, opened: Open, view: str) -> None:
    page = opened(f"{running.url}/{VIEWS[view]}", **PHONE)
    ready(page, view)
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for name in ("Overview", "Threads", "Pipeline", "Dead letters"):
        expect(page.get_by_role("navigation").get_by_text(name)).to_be_in_viewport()


def test_the_theme_stays_as_it_was_chosen(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/", color_scheme="light")
    button = page.locator("#theme")
    button.click()
    button.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    button.click()
    assert page.locator("html").get_attribute("data-theme") is None


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_tenant_signs_in_and_sees_its_own(guarded: str, tokens: Tokens, opened: Open) -> None:
    page = opened(f"{guarded}/#/threads")
    sign_in(page, "tm_wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page, tokens.globex)
    expect(page.get_by_text("No thread is stored yet")).to_be_visible()
    page.goto(f"{guarded}/{VIEWS['thread']}")
    expect(page.locator(".state.problem")).to_contain_text("No thread has this id")
    page.goto(f"{guarded}/#/dead-letters")
    expect(page.locator(".state.problem")).to_contain_text("use a token without one")
    page.goto(f"{guarded}/#/pipeline")
    expect(page.locator(".notice")).to_contain_text("bound to a tenant")
    expect(page.get_by_role("button", name="Take stock")).to_be_hidden()
    page.goto(f"{guarded}/#/?by=tenant&range=24h")
    expect(page.locator(".chart[data-state=empty]")).to_have_count(6)

    page.get_by_role("button", name="Sign out").click()
    sign_in(page, tokens.acme)
    expect(page.locator(".chart[data-state=drawn]").first).to_be_visible()
    page.get_by_role("button", name="Turns as a table", exact=True).click()
    assert page.get_by_role("region", name="Turns, as a table", exact=True).locator("thead th").all_inner_texts() == [
        "Time",
        "acme",
    ]
    page.goto(f"{guarded}/#/threads")
    ready(page, "threads")
    rows = page.locator(".threads .row")
    expect(rows.filter(has=page.get_by_text("acme", exact=True))).to_have_count(rows.count())


def test_who_sees_all_says_whose_thread_is_meant(guarded: str, tokens: Tokens, opened: Open) -> None:
    thread_id = str(uuid4())
    for token, count in ((tokens.acme, 5), (tokens.globex, 9)):
        answer = httpx.post(
            f"{guarded}/v1/threads/{thread_id}/runs/r/stream?dialect=vercel-ai",
            content=sse(talk(count)),
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
    page = opened(f"{guarded}/#/threads/{thread_id}")
    sign_in(page, tokens.operator)
    expect(page.get_by_text("Whose is meant?")).to_be_visible()
    page.get_by_role("link", name="globex").click()
    expect(page.locator(".turn").last).to_contain_text("word 8")
    page.goto(f"{guarded}/#/threads/{thread_id}?tenant=acme")
    expect(page.locator(".turn").last).to_contain_text("word 4")
    expect(page.locator(".turn", has_text="word 5")).to_have_count(0)


def test_before_anything_was_published(running: Stage, tmp_path: Path, opened: Open) -> None:
    settings = running.settings.model_copy(update={"home": tmp_path, "topic_prefix": "nothing"})
    with serving(settings) as url:
        page = opened(f"{url}/#/?range=1h")
        expect(page.locator(".notice:not(.waiting)")).to_contain_text("`turnmill topics apply` creates them")
        ways = page.get_by_role("region", name="Nothing is here yet. Three ways in:")
        expect(ways.get_by_text("turnmill run -- python agent.py")).to_be_visible()
        expect(ways.get_by_role("button", name="Copy")).to_have_count(3)
        expect(ways.get_by_role("status")).to_have_text("Waiting for the first event…")
        expect(page.locator(".chart").first).to_be_hidden()
        for tile in ("tokens", "cost", "events"):
            expect(page.locator(f"#tile-{tile}")).to_have_text("–")  # nobody knows: it is not 0
        in_a_thread(apply_topics(settings))
        publish(settings, recordings(TROUBLE)[:1])
        expect(ways.get_by_role("status")).to_contain_text("The first event is here")
        page.goto(f"{url}/#/threads/{THREAD}")
        expect(page.get_by_text("No thread has this id.")).to_be_visible()
        page.goto(f"{url}/#/threads")
        expect(page.get_by_text("turnmill publish examples/weather.sse")).to_be_visible()
        page.goto(f"{url}/#/dead-letters")
        expect(page.get_by_text("No record was refused")).to_be_visible()
        page.goto(f"{url}/#/nowhere")
        expect(page.get_by_text("There is nothing here")).to_be_visible()


def test_a_gateway_that_goes_and_comes_back(running: Stage, opened: Open) -> None:
    settings: Any = running.settings.model_copy(update={"gateway_port": free_ports(1)[0]})
    with serving(settings) as url:
        page = opened(f"{url}/#/?range=24h")
        ready(page, "overview")
        expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#connection")).to_have_text("Reconnecting")
    expect(page.locator(".notice")).to_contain_text("The gateway does not answer")
    expect(page.locator(".chart[data-state=drawn]").first).to_be_visible()  # what was there stays
    with serving(settings):
        expect(page.locator("#connection")).to_have_text("Live")
        expect(page.locator(".notice")).to_be_hidden()


def test_tokens_are_made_shown_once_and_revoked(guarded: str, tokens: Tokens, opened: Open) -> None:
    page = opened(f"{guarded}/#/tokens")
    page.get_by_label("Token", exact=True).fill(tokens.acme)
    page.get_by_role("button", name="Sign in").click()
    form = page.get_by_role("region", name="New token")
    form.get_by_label("Name").fill("nightly <b>report</b>")
    form.get_by_label("Expires").select_option("30")
    form.get_by_role("button", name="Make the token").click()
    secret = form.locator("code").inner_text()
    assert secret.startswith("tm_")
    made = page.locator(".token", has_text="nightly <b>report</b>")
    expect(made).to_contain_text("never used")
    expect(made).to_contain_text("acme")
    row = made.element_handle()
    made.get_by_role("button", name="Rotate").click()
    expect(form.locator("code")).not_to_have_text(secret)
    page.wait_for_function("row => !row.isConnected", arg=row)  # the list is read again
    made.get_by_role("button", name="Revoke").click()
    made.get_by_role("button", name="Revoke for good").click()
    expect(made).to_have_count(0)
    form.get_by_label("Name").fill("too much")
    form.get_by_label("Tenant").fill("globex")
    form.get_by_role("button", name="Make the token").click()
    expect(form.get_by_role("alert")).to_contain_text("bound to its own tenant")
