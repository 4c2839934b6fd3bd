"""What was said, searched on the dashboard."""

import httpx
from playwright.sync_api import Page, expect

from tests.browser import forks, showcase
from tests.browser.conftest import Open
from tests.browser.stage import Stage
from turnmill.identity import thread_uuid

LONG = thread_uuid(forks.LONG)[0]
THREAD = thread_uuid(showcase.THREAD, "acme")[0]
ENTRIES = forks.EXCHANGES  # turns that note one each


def hits(page: Page) -> list[str]:
    return page.locator(".hits .row .snippet").all_inner_texts()


def test_words_are_looked_for_and_lead_to_their_turn(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/threads")
    page.get_by_role("group", name="Look in").get_by_text("What was said").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What was said")
    expect(page.locator("section .state")).to_contain_text("Type one or more words")
    page.get_by_label("Search").fill('"entry 7 of the" LOGBOOK -24')
    expect(page.locator(".hits .row")).to_have_count(1)
    expect(page.get_by_label("Search")).to_be_focused()
    expect(page.locator(".hits .row .found")).to_contain_text("guide · Entry 0, please.")
    assert hits(page) == ["Noted: entry 7 of the **logbook**."]
    assert page.locator(".hits mark").all_inner_texts() == ["entry 7 of the", "logbook"]
    page.locator(".hits .row").click()
    linked = page.locator(".turn.linked")
    expect(linked).to_contain_text("entry 7 of the logbook")
    expect(linked).to_be_in_viewport()
    page.go_back()
    expect(page.locator(".hits .row")).to_have_count(1)
    expect(page.get_by_label("Search")).to_have_value('"entry 7 of the" LOGBOOK -24')


def test_hits_come_a_page_at_a_time(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/search?q=logbook&agent=guide")
    pages = range(20, ENTRIES, 20)
    for shown in pages:
        expect(page.locator(".hits .row")).to_have_count(shown)
        page.get_by_role("button", name="Load more").click()
    expect(page.locator(".hits .row")).to_have_count(ENTRIES)
    expect(page.get_by_role("button", name="Load more")).to_be_hidden()
    expect(page.locator(".hits .row").nth(pages[-1])).to_be_focused()
    assert len(set(hits(page))) == ENTRIES


def test_filters_narrow_it_and_stay_in_the_address(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/search?q=entr*+7")
    expect(page.locator(".hits .row")).to_have_count(2)
    page.get_by_label("Said by").select_option("user")
    expect(page.locator(".hits .row")).to_have_count(1)
    assert hits(page) == ["Entry 7, please."]
    assert "role=user" in page.url
    page.get_by_label("When").select_option("86400")
    expect(page.locator(".hits .row")).to_have_count(1)
    page.reload()
    expect(page.locator(".hits .row")).to_have_count(1)
    page.get_by_role("searchbox", name="Agent").fill("nobody")
    expect(page.locator("section .state")).to_have_text("Nobody has said that")
    expect(page.locator(".hits .row")).to_have_count(0)
    page.get_by_label("Search").fill("-entry")
    expect(page.locator("section .state")).to_contain_text("words are expected")


def test_a_hit_shows_its_text_as_it_was_written(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/#/search?q=checkout")
    expect(page.locator(".hits .row").first).to_be_visible()
    address = page.locator(f".hits .row[href*='{THREAD}']").first.get_attribute("href") or ""
    turn = address.partition("turn=")[2]
    document = httpx.get(f"{running.url}/v1/threads/{THREAD}", trust_env=False).json()
    assert turn in {one["meta:turn_id"] for one in document["turns"]}
    for text in hits(page):
        assert "&" not in text or "&amp;" not in text
        assert "checkout" in text.lower()


def test_keys_lead_there(running: Stage, opened: Open) -> None:
    page = opened(f"{running.url}/")
    expect(page.get_by_role("heading", level=1)).to_be_attached()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", level=1)).to_have_text("What was said")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
