"""`turnmill rerun`: its options, and the choice of answers."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from pipeline.cli.output import wide_console
from pipeline.cli.rerun.comparing import Score, scored, scorer, side_by_side, summary
from pipeline.cli.stored.selection import FILTERS, filters, find_document
from pipeline.gateway.proxy.client import session
from pipeline.gateway.rerun.calling import Answer, Changes, Chosen, Pair, answer_of, assembled, call, chosen, publish
from pipeline.settings import load
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents
from topics import json_text
from topics.turn_record import TurnRecord
from turnmill.errors import CallerError
from turnmill.publish.publisher import Publisher

CONCURRENCY: Final = 4  # concurrent requests to a provider
FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(short_help="Send the request of an answer again, with changes.")
@click.argument("thread", required=False)
@click.option("--turn", help="Id of the turn or its run; by default the newest answer.")
@click.option("--model", "other_model", metavar="MODEL", help="Another model of the same provider.")
@click.option("--system", type=FILE, help="Another system prompt.")
@click.option("--tools", type=FILE, help="Other tools, as the API takes them.")
@click.option("--set", "values", multiple=True, metavar="NAME=JSON", help="Parameter, as temperature=0; null: none.")
@click.option("--base-url", help="URL of the provider, if it is not a known one.")
@click.option("--scorer", "by", metavar="COMMAND", help="How to score answers: a command, or module:function.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000), help="Maximum answers.")
@click.option("--no-publish", is_flag=True, help="Only compare; don't store the new version.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each answer.")
@partial(filters, model="--of-model")
@click.option("--tenant", help="The threads' tenant; '': none.")
def rerun(
    thread: str | None,
    turn: str | None,
    other_model: str | None,
    system: Path | None,
    tools: Path | None,
    values: Sequence[str],
    base_url: str | None,
    by: str | None,
    limit: int,
    tenant: str | None,
    *,
    no_publish: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Send the request of a stored answer again, with changes, and with the provider's key from the environment.

    \b
        turnmill rerun chat-42 --model gpt-5-mini
        turnmill rerun --agent support --search refund --system new-prompt.txt --scorer 'python judge.py'

    The new answer is published as another version of the old one, and the two are shown side by side. Without THREAD,
    the newest answers of the chosen threads are asked for again, and compared in a table.
    """  # noqa: D301  # click's mark of a block that is not wrapped
    if thread is None and turn is not None:
        raise CallerError("--turn needs its thread: `turnmill rerun THREAD --turn TURN`")
    filtered = any(wanted[name] is not None for name in FILTERS)
    if thread is None and not filtered and tenant is None:
        raise CallerError("name a thread, or choose some: --agent, --of-model, --search, --status, --tenant")
    if thread is not None and filtered:
        raise CallerError("the options that choose among all threads go without THREAD")
    changes = Changes(
        other_model,
        None if system is None else system.read_text("utf-8"),
        None if tools is None else _json(tools.read_text("utf-8"), "--tools"),
        dict(map(_value, values)),
        base_url,
    )
    settings, score = load(), None if by is None else scorer(by)
    contents = ContentStore.of(settings)
    publisher = None if no_publish else Publisher(settings)

    async def run() -> list[Pair]:
        async with await ThreadStore.open(settings.store_url) as store:
            if thread is not None:
                answers = [await _answer_in(store, contents, thread, tenant, turn, changes)]
            else:
                query = ListQuery(tenant=tenant, **wanted)
                answers = [answer async for answer in _newest(store, contents, query, changes, limit)]
        if not answers:
            raise CallerError("no answer of the chosen threads says what its model was asked (docs/requests.md)")
        return await _pairs(answers, publisher, partial(answer_of, prices=settings.price_list), score)

    pairs = asyncio.run(run())
    if as_json:
        for pair in pairs:
            click.echo(json_text.dumps(asdict(pair)))
    else:
        wide_console().print(side_by_side(pairs[0]) if thread is not None else summary(pairs))
    if all(pair.after.status != "complete" for pair in pairs):
        raise CallerError("no answer came: what the provider said is in the answers above")


async def _answer_in(
    store: ThreadStore, contents: ContentStore, given: str, tenant: str | None, turn: str | None, changes: Changes
) -> Chosen:
    key, document = await find_document(store, given, tenant)
    answer = await chosen(store, contents, key, document, turn, changes, os.environ)
    if answer is None:
        what = "no answer" if turn is None else f"the turn {turn!r:.100} is not there, or"
        raise CallerError(f"{given}: {what} says what its model was asked (docs/requests.md)")
    return answer


async def _newest(
    store: ThreadStore, contents: ContentStore, query: ListQuery, changes: Changes, limit: int
) -> AsyncIterator[Chosen]:
    async for key, document in all_documents(store, query):
        answer = await chosen(store, contents, key, document, None, changes, os.environ)
        if answer is not None:
            yield answer
            limit -= 1
        if not limit:
            return


async def _pairs(
    answers: Sequence[Chosen], publisher: Publisher | None, read: Callable[[TurnRecord], Answer], score: Score | None
) -> list[Pair]:
    room = asyncio.Semaphore(CONCURRENCY)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(session(trust_env=True))
        if publisher is not None:
            await stack.enter_async_context(publisher)

        async def ask(old: Chosen) -> Pair:
            async with room:
                heard = await call(http, old.request)
                records = [old.record, assembled(heard, old.request, old.record)]
                if publisher is not None:
                    await publish(publisher, heard, old.request, old.key, old.record)
                sides = [read(record) for record in records]
                if score is not None:
                    named = {"thread_id": old.key.thread_id, "request": old.request.body}
                    for number, record in enumerate(records):
                        judged = {**named, "turn_id": record["turn_id"], "turn": record["turn"]}
                        sides[number] = replace(sides[number], score=await scored(score, judged))
                run_id = heard.run_id if publisher is not None else None
                return Pair(old.key.thread_id, old.record["turn_id"], run_id, *sides)

        return list(await asyncio.gather(*map(ask, answers)))


def _value(given: str) -> tuple[str, Any]:
    name, there, text = given.partition("=")
    if not there or not name:
        raise CallerError(f"--set NAME=JSON is expected, as temperature=0, not {given!r:.80}")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text  # a plain word needs no quotes


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CallerError(f"{option}: the file is no JSON: {error}") from None
