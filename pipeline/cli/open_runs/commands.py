"""`turnmill stop`, `steer` and `answer`: commands to open runs, sent through a gateway."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import click

from pipeline.cli.running import at_gateway
from pipeline.observability.audit import user_name
from topics import json_text
from turnmill.gateway_call import call

SETTLED: Final = frozenset({"ended", "completed", "refused", "unanswered"})
FAILED: Final = frozenset({"refused", "unanswered"})
POLL_INTERVAL: Final = 0.25  # seconds
SAYS: Final = {
    "requested": "it is on its way",
    "acknowledged": "the program has it",
    "ended": "the run has ended",
    "completed": "the run was over before",
    "unanswered": "nobody has answered for 30 s: no such run is under way, or its program does not listen",
}

Ask = Callable[..., Awaitable[Any]]  # `turnmill.gateway_call.call`, of the chosen gateway
F = TypeVar("F", bound=Callable[..., Any])


def _common(function: F) -> F:
    for option in (
        click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the result."),
        click.option(
            "--gateway",
            metavar="URL",
            help="URL of the gateway; by default that of TURNMILL_PUBLISH_URL, or else the one on this machine.",
        ),
        click.option("--by", metavar="NAME", help="Who gives the command; by default the user of this machine."),
        click.option("--tenant", metavar="NAME", help="The thread's tenant, for tokens without a tenant."),
    ):
        function = option(function)
    return function


@click.command(short_help="Stop a run, or all open runs of a thread.")
@click.argument("thread")
@click.argument("run", required=False)
@click.option("--after-turn", is_flag=True, help="Let it finish what it is saying.")
@_common
def stop(thread: str, run: str | None, *, after_turn: bool, **more: Any) -> None:
    """Stop RUN of THREAD, and the runs that it started; without RUN, each open run of the thread.

    It uses the token in TURNMILL_PUBLISH_TOKEN, which needs the scope `control`.
    """
    _send(*_of(thread, run, "stop"), {"mode": "after_turn" if after_turn else "now"}, until="ended", **more)


@click.command(short_help="Send a message to an open run.")
@click.argument("thread")
@click.argument("text")
@click.option("--run", metavar="ID", help="The run; by default each open one of the thread.")
@_common
def steer(thread: str, text: str, run: str | None, **more: Any) -> None:
    """Send the message TEXT to a run of THREAD, which takes it up between two tools."""
    _send(*_of(thread, run, "steer"), {"text": text}, until="acknowledged", **more)


@click.command(short_help="Answer a question that a thread waits for.")
@click.argument("thread")
@click.argument("answer_id", metavar="ID")
@click.argument("value")
@_common
def answer(thread: str, answer_id: str, value: str, **more: Any) -> None:
    """Answer the question ID of THREAD with VALUE: `true` or `false` for an approval, else JSON or text.

    `turnmill runs --waiting --json` shows the ids, as `answer_id`.
    """
    try:
        parsed = json_text.loads(value)
    except ValueError:
        parsed = value
    _send("/v1/threads/{}/answers/{}", [thread, answer_id], {"value": parsed}, until="acknowledged", **more)


def _of(thread: str, run: str | None, action: str) -> tuple[str, list[str]]:
    """Return the path of a command to a run, or to a thread, and the values of its placeholders."""
    if run is None:
        return f"/v1/threads/{{}}/{action}", [thread]
    return f"/v1/threads/{{}}/runs/{{}}/{action}", [thread, run]


def _send(
    path: str,
    names: list[str],
    body: dict[str, Any],
    *,
    until: str,
    gateway: str | None,
    by: str | None,
    tenant: str | None,
    wait: bool,
) -> None:
    settings = at_gateway(gateway)
    if tenant is not None:
        path, names = f"{path}?tenant={{}}", [*names, tenant]
    ask, body = partial(call, settings), {**body, "by": by or user_name() or None}
    failed = asyncio.run(_follow(ask, path, names, body, until, wait=wait))
    if failed:
        sys.exit(1)


async def _follow(ask: Ask, path: str, names: list[str], body: dict[str, Any], until: str, *, wait: bool) -> bool:
    """Give a command, print its states, and return whether it failed."""
    given = await ask("POST", path, *names, json=body)
    states = [
        await _state(ask, command_id, until, wait=wait)
        for command_id in given.get("command_ids") or [given["command_id"]]
    ]
    return any(state in FAILED for state in states)


async def _state(ask: Ask, command_id: str, until: str, *, wait: bool) -> str:
    shown = ""
    while True:
        answer = await ask("GET", "/v1/commands/{}", command_id)
        state = str(answer["state"])
        if state != shown:
            click.echo(f"{command_id}  {state}: {SAYS.get(state) or answer['reason']}")
            shown = state
        if not wait or state in SETTLED or state == until:
            return state
        await asyncio.sleep(POLL_INTERVAL)
