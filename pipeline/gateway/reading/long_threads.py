"""Long threads over HTTP: a page of a thread, and a whole document that is sent while it is read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from fastapi.responses import StreamingResponse

from pipeline.assembly.dialect import Format
from pipeline.gateway.problems import bounded_answer
from pipeline.gateway.routing import JSON, PRIVATE
from pipeline.gateway.state import Gateway, unknown_thread
from pipeline.stores.threads.pages import PIECE, PageWanted, Whole, read_page, read_whole
from pipeline.stores.threads.reading import count_turns
from pipeline.turns.branches import BRANCH
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey

Taken = Callable[[], AbstractAsyncContextManager[None]]  # takes a slot


async def page_of(gateway: Gateway, key: ThreadKey, wanted: PageWanted, form: Format) -> tuple[Fields, Fields]:
    """Return the document of a page, and {"previous", "next"}. Messages are of one branch, whose page has no marks."""
    page = await read_page(await gateway.store(), key, wanted)
    if page is None:
        raise unknown_thread(key.thread_id)
    document = page.document
    if not form.is_document:
        unmarked = [{name: value for name, value in turn.items() if name != BRANCH} for turn in document["turns"]]
        document = {**document, "turns": unmarked}
    return document, {"previous": page.previous, "next": page.next}


async def inlined(gateway: Gateway, key: ThreadKey, document: Fields) -> Fields:
    """Return a document with its large values from the content store."""
    with bounded_answer("format=thread without `inline` gives the references"):
        return await gateway.contents.inlined(key, document, gateway.settings.gateway_response_bytes)


async def long_document(gateway: Gateway, key: ThreadKey) -> Whole | None:
    """Return a thread's document of which the turns are still to be read; None for a thread that is a single piece."""
    store = await gateway.store()
    return await read_whole(store, key) if await count_turns(store, key) > PIECE else None


def sent(whole: Whole, tag: str, form: Format, taken: Taken, *, partial: bool) -> StreamingResponse:
    """Return the answer with a whole document, of which some turns are in memory at a time, in a slot each time."""
    text = _text(whole, form, taken, partial=partial)
    return StreamingResponse(text, headers={**PRIVATE, "ETag": tag}, media_type=JSON)


async def _text(whole: Whole, form: Format, taken: Taken, *, partial: bool) -> AsyncIterator[str]:
    def text_of(turns: list[Fields]) -> str:
        shown = form.printed({**whole.head, "turns": turns}, partial=partial)["turns"]
        return ",".join(map(json_text.dumps, shown))

    yield f'{json_text.dumps(whole.head)[:-1]},"turns":['
    comma = ""
    pieces = whole.turns()
    while True:
        async with taken():
            turns = await anext(pieces, None)
            if turns is None:
                break
            text = await asyncio.to_thread(text_of, turns)
        if text:
            yield comma + text
            comma = ","
    yield "]" + (f",{json_text.dumps(whole.relationships)[1:]}" if whole.relationships else "}")
