"""A thread as people read it: its versions, its length, links to a turn, words that are looked for."""

import time
from typing import Any

import httpx
from playwright.sync_api import Page, expect
from pydantic import SecretStr

from tests.browser import forks, showcase
from tests.browser.conftest import Open
from tests.browser.stage import Stage, publish, serving, settled
from tests.support.forked import spoken
from tests.support.gateways import Tokens
from tests.support.waiting import wait_for
from turnmill.identity import thread_uuid

FORKED = thread_uuid(forks.FORKED)[0]
LONG = thread_uuid(forks.LONG)[0]
THREAD = thread_uuid(showcase.THREAD, "acme")[0]


def said(page: Page) -> list[str]:
    return page.locator(".turn .text").all_inner_texts()


def test_a_thread_that_forks_shows_its_newest_branch_and_leads_to_the_others(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{FORKED}")
    expect(page.locator(".turn")).to_have_count(4)
    assert said(page) == [
        forks.ASKED,
        "Crete: warm already, and quiet.",
        forks.OTHER,
        "Then rather the Alps, by train.",
    ]
    expect(page.locator(".turn.user").first.get_by_role("group", name="Version")).to_have_count(0)
    page.get_by_role("group", name="Version 2 of 2").first.get_by_label("Version before").click()
    expect(page.locator(".turn")).to_have_count(2)
    assert said(page) == [forks.ASKED, "Lisbon: mild, and by the sea."]
    assert "branch=holiday-first" in page.url
    page.get_by_label("Version behind").click()
    expect(page.locator(".turn")).to_have_count(4)
    page.locator(".turn.user", has_text=forks.OTHER).get_by_label("Version before").click()
    expect(page.get_by_text("Crete has shallow bays.")).to_be_visible()
    expect(page.get_by_text("by train")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("Crete has shallow bays.")).to_be_visible()


def test_two_versions_are_compared_side_by_side(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{FORKED}")
    folds = page.locator("details.fold", has_text="Compare with version 1")
    expect(folds).to_have_count(2)
    folds.first.locator("summary").click()
    table = page.get_by_role("table", name="Both versions")
    expect(table.locator("thead")).to_contain_text("version 2version 1")
    words = table.get_by_role("row", name="Words").locator("td")
    expect(words).to_have_text(["Crete: warm already, and quiet.", "Lisbon: mild, and by the sea."])
    expect(table.get_by_role("row", name="Model").locator("td")).to_have_text(["gpt-5-mini", "gpt-5-mini"])
    page.get_by_role("group", name="Version 2 of 2").first.get_by_label("Version before").click()
    expect(page.locator("details.fold", has_text="Compare with version 2")).to_have_count(1)


def test_each_response_says_what_it_was_asked_and_what_changed(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{FORKED}")
    asked = page.locator(".fold.asked")
    expect(asked).to_have_count(2)
    expect(asked.first).to_contain_text("first call here")
    expect(asked.last).to_contain_text("changed since the call before")
    asked.last.locator("summary").click()
    expect(asked.last.locator("del")).to_have_text("- regenerate-message")
    expect(asked.last.locator("ins")).to_have_text("+ submit-message")
    asked.first.locator("summary").click()
    expect(asked.first.locator("pre")).to_contain_text('"trigger": "regenerate-message"')


def test_a_turn_is_judged_with_a_thumb_and_a_comment_and_this_is_taken_back(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{LONG}")

    def said() -> list[tuple[Any, Any]]:
        found = httpx.get(f"{running.url}/v1/threads/{LONG}", params={"feedback": "true"}, trust_env=False).json()
        return [(one["value"], one.get("comment")) for one in found["meta:feedback"]]

    judged = page.locator(".turn.agent").last.get_by_label("Feedback")
    judged.get_by_role("button", name="Helpful", exact=True).click()
    expect(judged.get_by_role("button", name="Helpful", exact=True)).to_have_attribute("aria-pressed", "true")
    judged.get_by_label("Comment").fill("to the point")
    judged.get_by_role("button", name="Save comment").click()
    wait_for(lambda: said() == [(True, "to the point")])
    page.reload()
    judged = page.locator(".turn.agent").last.get_by_label("Feedback")
    expect(judged.get_by_label("Comment")).to_have_value("to the point")
    judged.get_by_role("button", name="Helpful", exact=True).click()
    wait_for(lambda: said() == [])
    page.reload()
    expect(page.locator(".turn.agent").last.get_by_role("button", name="Helpful", exact=True)).to_have_attribute(
        "aria-pressed", "false"
    )


def test_single_messages_of_a_turn_are_judged(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{THREAD}?tenant=acme")

    def said() -> set[tuple[Any, Any, Any]]:
        query = {"feedback": "true", "tenant": "acme"}
        found = httpx.get(f"{running.url}/v1/threads/{THREAD}", params=query, trust_env=False).json()
        return {(one["value"], one.get("message"), one.get("comment")) for one in found["meta:feedback"]}

    turn = page.locator(".turn.agent", has=page.locator(".of-message")).first
    messages = turn.locator(".of-message")
    expect(messages.nth(1)).to_be_attached()
    whole = turn.locator(":scope > .judged:not(.of-message)")
    first = int((messages.first.get_attribute("aria-label") or "").rpartition(" ")[2])
    messages.first.get_by_role("button", name="Not helpful").click()
    messages.first.get_by_label("Comment").fill("the wrong tool")
    messages.first.get_by_role("button", name="Save comment").click()
    whole.get_by_role("button", name="Helpful", exact=True).click()
    wait_for(lambda: said() == {(False, first, "the wrong tool"), (True, None, None)})
    page.reload()
    expect(messages.first.get_by_label("Comment")).to_have_value("the wrong tool")
    expect(messages.nth(1).get_by_label("Comment")).to_have_count(0)
    for one in (
        messages.first.get_by_role("button", name="Not helpful"),
        whole.get_by_role("button", name="Helpful", exact=True),
    ):
        expect(one).to_have_attribute("aria-pressed", "true")
        one.click()
    wait_for(lambda: said() == set())


def test_a_comment_that_is_being_typed_outlasts_a_live_update(running: Stage, opened: Open) -> None:
    def speak(run: str, text: str) -> None:
        publish(running.settings, [forks._run("typed-1", run, spoken("vercel-ai", text), int(time.time() * 1000))])

    speak("typed-first", "First answer.")
    settled(running)
    page = opened(f"{running.url}/#/threads/typed-1")
    judged = page.locator(".turn.agent").first.get_by_label("Feedback")
    judged.get_by_role("button", name="Helpful", exact=True).click()
    words = judged.get_by_label("Comment")
    words.click()
    words.press_sequentially("not yet fin")
    speak("typed-second", "Second answer.")
    expect(page.locator(".turns .turn.agent")).to_have_count(2)
    expect(words).to_have_value("not yet fin")
    expect(words).to_be_focused()
    words.press_sequentially("ished")
    expect(words).to_have_value("not yet finished")
    judged.get_by_role("button", name="Save comment").click()

    def said() -> list[Any]:
        found = httpx.get(f"{running.url}/v1/threads/typed-1", params={"feedback": "true"}, trust_env=False).json()
        return [one.get("comment") for one in found["meta:feedback"]]

    wait_for(lambda: said() == ["not yet finished"])


def test_a_long_thread_opens_at_its_newest_turns_and_the_older_come_on_scroll(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{LONG}")
    turns = page.locator(".turn")
    expect(turns).to_have_count(100)
    expect(page.locator(".facts")).to_contain_text("300 turns")
    expect(turns.last).to_contain_text("entry 149 of the logbook")
    expect(turns.last).to_be_in_viewport()
    expect(page.get_by_text("Entry 99, please.")).to_have_count(0)
    oldest = page.get_by_text("Entry 100, please.")
    for shown in (200, 300):
        page.evaluate("scrollTo(0, 0)")
        expect(turns).to_have_count(shown)
        expect(oldest).to_be_in_viewport()  # what was read stays where it was
        oldest = page.get_by_text("Entry 50, please.")
    expect(turns.first).to_contain_text("Entry 0, please.")
    expect(page.get_by_role("button", name="Show earlier turns")).to_be_hidden()


def test_a_link_leads_to_its_turn(running: Stage, opened: Open) -> None:
    turns = httpx.get(f"{running.url}/v1/threads/{LONG}", trust_env=False).json()["turns"]
    page = opened(f"{running.url}/#/threads/{LONG}?turn={turns[7]['meta:turn_id']}")
    linked = page.locator(".turn.linked")
    expect(linked).to_contain_text("entry 3 of the logbook")
    expect(linked).to_be_focused()
    expect(linked).to_be_in_viewport()
    expect(page.locator(".turn")).to_have_count(100)
    page.get_by_role("button", name="Show later turns").scroll_into_view_if_needed()
    expect(page.locator(".turn")).to_have_count(200)
    link = page.locator(".turn").nth(20).get_by_role("link", name="Link to this turn").get_attribute("href")
    assert link is not None
    page.goto(f"{running.url}/{link}")
    expect(page.locator(".turn.linked")).to_be_focused()


def test_words_are_found_also_where_they_are_folded_or_not_loaded(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{LONG}")
    expect(page.locator(".turn")).to_have_count(100)
    page.keyboard.press("f")
    field = page.get_by_label("Find in thread")
    expect(field).to_be_focused()
    field.fill("ENTRY 7,")
    expect(page.locator(".find")).to_contain_text("1 of 1")
    expect(page.get_by_text("Entry 7, please.")).to_be_in_viewport()
    field.fill("no such words")
    expect(page.locator(".find")).to_contain_text("nowhere")

    page = opened(f"{running.url}/#/threads/{THREAD}")
    expect(page.locator(".turn.agent").first).to_be_visible()
    page.get_by_label("Find in thread").fill("pool 4/4 in use")
    expect(page.locator(".find")).to_contain_text("1 of ")
    expect(page.locator(".fold.tool[open]", has_text="pool 4/4 in use")).to_have_count(1)
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".find")).to_contain_text(" of ")


def test_a_conversation_is_copied_as_markdown(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{THREAD}", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("# Checkout fails for one customer in five")
    assert "## User, " in text
    assert "**search_logs**\n\n```json\n{\n" in text
    assert "\n> One in five fits one bad instance" in text
    assert "````\n" in text or "pool_size: 40" in text


def test_steps_are_a_line_of_time(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{THREAD}")
    steps = page.locator(".fold.steps").first
    expect(steps).to_contain_text("3 steps")
    steps.locator("summary").click()
    expect(steps.get_by_role("listitem")).to_have_count(3)
    expect(steps.get_by_role("listitem").first).to_contain_text("840 → 212")
    expect(steps.get_by_role("listitem").first).to_contain_text("$")


def test_the_time_of_models_and_tools_is_drawn_when_somebody_looks(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{THREAD}")
    timeline = page.locator(".fold.steps + .fold.timeline").first
    timeline.locator("summary").click()
    rows = timeline.get_by_role("listitem")
    expect(rows.filter(has_text="search_logs").first).to_be_visible()
    expect(timeline.get_by_role("status")).to_contain_text("steps.")
    expect(rows.first.locator(".step-bar.model")).to_have_count(1)


def test_the_turns_of_a_thread_are_lines_that_lead_to_them(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{LONG}")
    overview = page.locator(".fold.timeline").first
    expect(overview.locator("summary")).to_contain_text("Timeline of all turns")
    overview.locator("summary").click()
    rows = overview.get_by_role("listitem")
    expect(overview.get_by_role("status")).to_contain_text("turns with steps")
    rows.first.get_by_role("link").click()
    expect(page.locator(".turn.linked")).to_be_visible()


def test_a_thread_without_words_says_what_it_is(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads?search={forks.NAMELESS}")
    expect(page.locator(".threads .row")).to_have_count(1)
    expect(page.locator(".threads .row")).to_contain_text("Guide, without words of a user")
    page.locator(".threads .row").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Guide, without words of a user")


def test_turns_are_put_into_a_data_set_and_taken_out(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads/{THREAD}?tenant=acme")
    turn = page.locator(".turn.agent").first
    turn.locator(":scope > .adding summary").click()
    form = turn.locator(":scope > .adding")
    form.get_by_label("Name").fill("no/slash")
    form.get_by_role("button", name="Add").click()
    expect(form.locator("input:invalid")).to_have_count(1)
    form.get_by_label("Name").fill("Golden ones")
    form.get_by_role("button", name="Add").click()
    expect(form.get_by_role("status")).to_have_text("Added 1 turn to Golden ones")
    whole = page.locator(".adding").first
    whole.locator("summary").click()
    expect(whole.get_by_label("Name")).to_have_value("Golden ones")
    expect(page.locator("datalist option")).to_have_attribute("value", "Golden ones")
    turns = page.locator(".turn").count()
    whole.get_by_role("button", name="Add").click()
    expect(whole.get_by_role("status")).to_contain_text(f"Added {turns - 1} turn")
    whole.get_by_role("link", name="Golden ones").click()
    rows = page.locator(".token")
    expect(rows).to_have_count(turns)
    page.get_by_role("button", name="Take out turn 1").click()
    expect(rows).to_have_count(turns - 1)
    rows.first.get_by_role("link").click()
    expect(page.locator(".turn.linked")).to_be_visible()
    page.get_by_role("link", name="Data sets").click()
    expect(rows).to_contain_text([f"Golden onesacme{turns - 1} turn"])
    drop = page.get_by_role("button", name="Delete the data set Golden ones")
    drop.click()
    expect(drop).to_have_text("Delete for good")
    drop.click()
    expect(page.get_by_text("None yet")).to_be_visible()


def test_a_link_shows_the_thread_without_a_token_until_it_ends(running: Stage, tokens: Tokens, opened: Open) -> None:
    settings = running.settings.model_copy(
        update={"gateway_tokens": SecretStr(tokens.setting), "gateway_share_seconds": 3600}
    )
    with serving(settings) as url:
        page = opened(f"{url}/#/threads/{THREAD}?tenant=acme")
        page.get_by_label("Token", exact=True).fill(tokens.acme)
        page.get_by_role("button", name="Sign in").click()
        share = page.locator(".adding", has_text="Share this thread by a link")
        share.locator("summary").click()
        share.get_by_role("button", name="Make a link").click()
        link = share.get_by_label("The link").input_value()
        assert link.startswith(f"{url}/#/shared/tm_")
        guest = opened(link)
        expect(guest.locator(".turn")).to_have_count(page.locator(".turn").count())
        expect(guest.locator(".turn.agent").first).to_contain_text("deploy 8841")
        expect(guest.get_by_role("link", name="Threads")).to_be_hidden()
        expect(guest.locator(".adding, .judged, .again, textarea, nav:visible")).to_have_count(0)
        guest.goto(f"{url}/#/threads")
        expect(guest.get_by_label("Token", exact=True)).to_be_visible()
        share.get_by_role("button", name="End all links").click()
        expect(share.get_by_role("status")).to_have_text("Ended 1 link")
        guest.goto(link)
        expect(guest.get_by_text("This link has ended")).to_be_visible()
        expect(guest.locator("nav")).to_be_hidden()
