"""What is stored is shown, and nothing of it runs, is fetched, or becomes markup."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser import payloads
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, settled, streaming
from turnmill.identity import thread_uuid

# Only what our own scripts make may be there: no element and no attribute out of a stored text.
TAGS = """a article aside b br button canvas caption code datalist dd details div dl dt em figcaption figure footer
form h1 h2 h3 h4 header i img input label li mark ol option p path pre section select span strong summary svg table
tbody td th thead time tr ul"""
FOREIGN = """(tags) => [...document.querySelectorAll("main *")].filter((one) =>
  !tags.includes(one.localName)
  || [...one.attributes].some(({ name, value }) => name.startsWith("on") || name === "srcdoc"
    || (name === "href" && !/^(#\\/|blob:|https?:\\/\\/)/.test(value))
    || (name === "src" && !value.startsWith("blob:")))
).map((one) => one.outerHTML.slice(0, 300))"""


@pytest.fixture(scope="module")
def attacked(running: Stage) -> Stage:
    publish(running.settings, payloads.all_of_them())
    settled(running)
    return running


def harmless(page: Page) -> None:
    assert page.evaluate("globalThis.attacked") is None
    assert page.evaluate(FOREIGN, TAGS.split()) == []


def unfold(page: Page) -> None:
    """Everything is shown, also what is far below: the browser lays a turn out when it comes into view."""
    page.locator(".turn").evaluate_all("all => all.forEach((one) => { one.style.contentVisibility = 'visible' })")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
    for button in page.get_by_role("button", name="Show all").all():
        button.click()


def test_every_field_of_every_part_is_only_shown(attacked: Stage, opened: Open) -> None:
    page = opened(f"{attacked.url}/#/threads/{thread_uuid(payloads.THREAD, payloads.TENANT)[0]}")
    expect(page.locator(".turn.agent")).to_have_count(2)
    unfold(page)
    shown = page.locator("main").inner_text()
    for where in (
        "title", "prompt", "media", "kind", "value", "text", "thinking", "file", "file type", "reference media", "name",
        "unknown kind", "builtin", "key", "argument", "result", "retry", "retry message", "event", "data", "error",
        "source", "document", "app data", "step", "reason", "interruption", "relation", "last words", "tenant",
        "thread",
    ):  # fmt: skip
        assert payloads.MARK + where in shown, where
    for payload in payloads.PAYLOADS[:5]:
        assert payload.split("\n")[0] in shown
    harmless(page)
    assert page.locator("main img:visible").count() == 0 or page.locator("main img").evaluate_all(
        "all => all.every((one) => one.naturalWidth === 0)"
    )
    for link in page.locator("main a[href^='blob:']").all():
        assert link.get_attribute("download"), "what a producer sent is saved, never opened"
    for link in page.locator("main a[target]").all():
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"


def test_what_was_streamed_is_only_shown(attacked: Stage, opened: Open) -> None:
    page = opened(f"{attacked.url}/#/threads/{thread_uuid(f'{payloads.THREAD} streamed', payloads.TENANT)[0]}")
    expect(page.locator(".turn.agent")).to_have_count(1)
    unfold(page)
    shown = page.locator("main").inner_text()
    for where in (
        "request",
        "reasoning",
        "streamed",
        "input",
        "tool error",
        "source title",
        "panel",
        "html",
        "stream error",
    ):
        assert payloads.MARK + where in shown, where
    harmless(page)


def test_an_open_run_is_only_shown(attacked: Stage, opened: Open) -> None:
    page = opened(f"{attacked.url}/")
    with streaming(attacked.settings, payloads.streamed("open")):
        row = page.locator(".runs .row", has_text=payloads.MARK)
        expect(row).to_contain_text("attacked")
        harmless(page)
        row.click()
        expect(page.locator(".turn.open")).to_contain_text(f"{payloads.MARK}streamed")
        harmless(page)


@pytest.mark.parametrize("by", ["model", "agent", "tenant"])
def test_names_in_lists_and_charts_are_only_shown(attacked: Stage, opened: Open, by: str) -> None:
    page = opened(f"{attacked.url}/#/?range=30d&by={by}")
    name = payloads.TENANT if by == "tenant" else payloads.NAME
    legend = page.locator(".chart", has_text="Turns").first.locator(".legend")
    expect(legend).to_contain_text(name)
    page.get_by_label(f"Only one {by}").select_option(name)
    expect(page.get_by_label(f"Only one {by}")).to_have_value(name)
    expect(page.locator(".chart[data-state=drawn]").first).to_be_visible()
    page.locator(".u-over").first.hover()
    page.get_by_role("button", name="Turns as a table", exact=True).click()
    expect(page.get_by_role("region", name="Turns, as a table", exact=True)).to_contain_text(name)
    harmless(page)
    page.goto(f"{attacked.url}/#/threads?search={payloads.MARK}title")
    expect(page.locator(".threads .row")).to_contain_text(payloads.MARK)
    harmless(page)


def test_hits_of_a_search_are_only_shown(attacked: Stage, opened: Open) -> None:
    page = opened(f"{attacked.url}/#/search?q=attacked+onerror")
    expect(page.locator(".hits .row").first).to_contain_text("globalThis.attacked")
    expect(page.locator(".hits mark").first).to_be_visible()
    harmless(page)


def test_dead_letters_are_only_shown(attacked: Stage, opened: Open) -> None:
    page = opened(f"{attacked.url}/#/dead-letters")
    letter = page.locator(".letter", has_text=payloads.MARK).first
    expect(letter).to_be_visible()
    unfold(page)
    expect(letter.locator("pre")).to_contain_text("globalThis.attacked")
    harmless(page)


def test_addresses_are_no_way_in(attacked: Stage, opened: Open) -> None:
    image = "<img src=x onerror=globalThis.attacked=1>"
    for place in (image, f"threads/{image}", "threads/..%2f..%2fdocs", f"?by=<b>&range=<b>&model={image}"):
        page = opened(f"{attacked.url}/#/{place}")
        expect(page.locator("main > *").first).to_be_visible()
        harmless(page)


def test_the_policy_would_stop_it(running: Stage, opened: Open) -> None:
    """If a fault of ours made markup out of a text one day, the browser would still not run it."""
    page = opened(f"{running.url}/")
    assert "TypeError" in page.evaluate("try { document.body.innerHTML = '<b>x</b>' } catch (error) { String(error) }")
    page.evaluate("""() => {
      const script = document.createElement("script");
      try { script.text = "globalThis.attacked = 1"; } catch { script.append("globalThis.attacked = 1"); }
      try { document.body.append(script); } catch { /* refused even before */ }
      const image = document.createElement("img");
      try { image.setAttribute("onerror", "globalThis.attacked = 2"); } catch { /* refused, too */ }
      image.src = "data:image/png;base64,AAAA";
      document.body.append(image);
    }""")
    assert page.evaluate("fetch('https://other.example/').catch(() => 'stopped')") == "stopped"
    for directive in ("require-trusted-types-for", "img-src", "connect-src"):
        page.wait_for_function("name => globalThis.refused.some((one) => one.startsWith(name))", arg=directive)
    assert page.evaluate("globalThis.attacked") is None
    page.evaluate("globalThis.refused = []")  # as it should be
