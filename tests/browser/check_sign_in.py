"""People sign in at a certified provider, in a real browser, and out again from either side."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pydantic import SecretStr

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.browser import chromium
from tests.browser.stage import serving
from tests.browser.watched import DESKTOP, PATIENCE
from tests.support.gateways import NOBODY
from tests.support.waiting import wait_for

SECRET = "a secret of the client, of 256 bits or more"
RULES = [
    {"role": "operator", "claim": "groups", "value": "operators", "tenant": "*"},
    {"role": "viewer", "claim": "groups", "value": "readers", "tenant": "acme"},
]


@contextmanager
def providing(port: int, gateway: str) -> Iterator[None]:
    """A certified provider, with keys of its own."""
    program = [*("node", str(chromium.installed() / "provider.mjs")), str(port), gateway, SECRET]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.terminate()


@contextmanager
def signing_in(home: Path, **more: Any) -> Iterator[tuple[str, str]]:
    """A gateway without its provider -> the addresses of both."""
    port, other = free_ports(2)
    gateway, provider = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other}"
    settings = Settings(
        home=home,
        gateway_port=port,
        gateway_url=gateway,
        gateway_oidc=SecretStr(provider),
        gateway_oidc_client_id="turnmill",
        gateway_oidc_client_secret=SecretStr(SECRET),
        gateway_oidc_roles=json.dumps(RULES),
        gateway_oidc_contact="ops@acme.example",
        **more,
    )
    with serving(settings):
        yield gateway, provider


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The gateway's, and the provider's."""
    with signing_in(tmp_path_factory.mktemp("home")) as (gateway, provider), providing(port_of(provider), gateway):
        yield gateway, provider


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    one = browser.new_context(viewport={**DESKTOP})
    one.set_default_timeout(PATIENCE)
    yield one
    one.close()


def sign_in(page: Page, gateway: str, who: str, view: str = "#/tokens") -> None:
    page.goto(f"{gateway}/{view}")
    page.get_by_role("link", name="Sign in with your organisation").click()
    page.locator("input[name=login]").fill(who)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def secret_of(context: BrowserContext) -> str:
    [cookie] = [one for one in context.cookies() if one["name"] == "turnmill"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    return cookie["value"]


def refused(gateway: str, secret: str) -> bool:
    with httpx.Client(verify=NOBODY, trust_env=False) as thief:
        return thief.get(f"{gateway}/v1/threads", cookies={"turnmill": secret}).status_code == 401


def test_an_operator_signs_in_and_out(addresses: tuple[str, str], context: BrowserContext) -> None:
    gateway, _ = addresses
    page = context.new_page()
    sign_in(page, gateway, "operators")
    expect(page.locator("#person")).to_have_text("operators@acme.example (operators), operator")
    expect(page).to_have_url(f"{gateway}/#/tokens")
    page.locator("input[name=name]").fill("ci")
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_text("It is shown this once")).to_be_visible()
    tab = context.new_page()
    tab.goto(f"{gateway}/#/tokens")
    expect(tab.locator("#person")).to_have_text("operators@acme.example (operators), operator")
    stolen = secret_of(context)
    assert not refused(gateway, stolen)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name=re.compile("Yes")).click()
    expect(page.get_by_role("link", name="Sign in with your organisation")).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape(gateway)))
    assert refused(gateway, stolen)
    tab.reload()
    expect(tab.get_by_role("link", name="Sign in with your organisation")).to_be_visible()


def test_the_provider_signs_somebody_out(addresses: tuple[str, str], context: BrowserContext) -> None:
    gateway, provider = addresses
    page = context.new_page()
    sign_in(page, gateway, "operators")
    expect(page.locator("#person")).to_have_text("operators@acme.example (operators), operator")
    secret = secret_of(context)
    at_provider = context.new_page()
    at_provider.goto(f"{provider}/session/end")
    at_provider.get_by_role("button", name=re.compile("Yes")).click()
    expect(at_provider.get_by_text("Sign-out Success")).to_be_visible()
    page.reload()
    expect(page.get_by_role("link", name="Sign in with your organisation")).to_be_visible()
    assert refused(gateway, secret)


def test_an_operator_sees_who_did_what_and_saves_a_view(addresses: tuple[str, str], context: BrowserContext) -> None:
    gateway, _ = addresses
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    sign_in(page, gateway, "operators", "#/audit?what=sign-in")
    expect(page.get_by_text("by operators@acme.example").first).to_be_visible()
    page.get_by_label("Who").fill("nobody of this name")
    expect(page.get_by_text("No entries match these filters")).to_be_visible()
    page.goto(f"{gateway}/#/threads?status=interrupted")
    page.get_by_text("Views", exact=True).click()
    expect(page.get_by_text("None is saved yet")).to_be_visible()
    page.get_by_label("Save this view as").fill("failed ones")
    page.get_by_label("for my team").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="failed ones")).to_have_attribute("href", "#/threads?status=interrupted")
    for width in (390, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "nothing sticks out"
    page.goto(f"{gateway}/#/search")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="failed ones").click()
    expect(page).to_have_url(f"{gateway}/#/threads?status=interrupted")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("button", name="Delete the view failed ones").click()
    expect(page.get_by_text("None is saved yet")).to_be_visible()
    assert faults == []


def test_a_viewer_sees_why_a_control_is_off(addresses: tuple[str, str], context: BrowserContext) -> None:
    page = context.new_page()
    sign_in(page, addresses[0], "readers")
    expect(page.locator("#person")).to_have_text("readers@acme.example (readers), viewer")
    button = page.get_by_role("button", name="Make the token")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "Your role does not have the scope admin")


def test_who_has_no_role_is_told_whom_to_ask(addresses: tuple[str, str], context: BrowserContext) -> None:
    page = context.new_page()
    sign_in(page, addresses[0], "visitors")
    expect(page.get_by_text("Ask ops@acme.example.")).to_be_visible()
    assert [one["name"] for one in context.cookies(addresses[0]) if one["name"].startswith("turnmill")] == []


def test_what_was_used_or_made_up_signs_nobody_in(addresses: tuple[str, str], context: BrowserContext) -> None:
    gateway, _ = addresses
    page = context.new_page()
    came: list[str] = []
    page.on("request", lambda request: came.append(request.url) if "/callback?" in request.url else None)
    sign_in(page, gateway, "operators")
    expect(page.locator("#person")).to_have_text("operators@acme.example (operators), operator")
    (used,) = came
    context.clear_cookies(name="turnmill")
    page.goto(used)
    expect(page.get_by_text("was not begun in this browser, took too long, or is over already")).to_be_visible()
    page.goto(re.sub("state=[^&]*", f"state={'x' * 30}", used))
    expect(page.get_by_text("was not begun in this browser, took too long, or is over already")).to_be_visible()
    assert "turnmill" not in {one["name"] for one in context.cookies(gateway)}
    page.goto(f"{gateway}/sign-in?to=https://evil.example/")
    expect(page).to_have_url(re.compile(rf"^{re.escape(gateway)}/(#/)?$"))  # the provider knows the person still
    expect(page.locator("#person")).to_have_text("operators@acme.example (operators), operator")


def test_a_session_outlives_the_providers_keys_and_ends_when_it_is_old(tmp_path: Path, context: BrowserContext) -> None:
    with signing_in(tmp_path, gateway_session_seconds=30.0) as (gateway, provider):
        page = context.new_page()
        with providing(port_of(provider), gateway):
            sign_in(page, gateway, "readers")
            expect(page.locator("#person")).to_have_text("readers@acme.example (readers), viewer")
        with providing(port_of(provider), gateway):  # it has other keys, and knows nobody any more
            page.reload()
            expect(page.locator("#person")).to_have_text("readers@acme.example (readers), viewer")

            def is_over() -> bool:
                page.reload()
                page.wait_for_timeout(500)
                return page.get_by_role("link", name="Sign in with your organisation").is_visible()

            wait_for(is_over)
            sign_in(page, gateway, "operators")
            expect(page.locator("#person")).to_have_text("operators@acme.example (operators), operator")
