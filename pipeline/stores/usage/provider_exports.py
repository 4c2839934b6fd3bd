"""Usage as a provider counts it, read from what its own API or dashboard hands out. No I/O but reading a given file.

As documented in November 2026:

    openai      pages of `/v1/organization/usage/completions`, `/web_search_calls`, … and of `/v1/organization/costs`:
                buckets with `start_time` and `results` (developers.openai.com/api/docs/api-reference/usage, and the
                types of openai 3.57)
    anthropic   pages of `/v1/organizations/usage_report/messages`, `/cost_report` and `/analytics/usage`: buckets with
                `starting_at` and `results` (platform.claude.com/docs/en/api/admin/usage_report/retrieve_messages, and
                the types of anthropic 2.14)
    openrouter  `/api/v1/activity`: rows for each day, model and endpoint
                (openrouter.ai/docs/client-sdks/typescript/models/activityitem)

A file has a page or many, one after the other or in an array; or buckets or rows without pages; or rows as CSV under
the same names. A bucket at a time is held.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from typing import Any, Final, NamedTuple, TextIO

from pipeline.turns.times import epoch_ms, iso
from pipeline.turns.tokens import COST, NANO, at, tier_of
from turnmill.errors import CallerError

Fields = dict[str, Any]
Number = int | Decimal
Sums = Mapping[str, tuple[str, ...]]  # a count of the store -> the provider's fields that add up to it
CHUNK: Final = 1 << 18  # characters
LARGEST: Final = 1 << 26  # characters of a bucket
LARGEST_NUMBER: Final = 10**18


class Malformed(ValueError):
    """The file is no such export; the text says why."""


@dataclass(frozen=True, slots=True)
class Billed:
    """What a provider counts for a day (of UTC), a model and a key, by the store's names of counts.

    `models`: the names of the model, () if it is not told. No counts: the store has none of this kind, or, if `empty`,
    nothing was used that day. `cost_nano_usd` is a Decimal.
    """

    day: str
    models: tuple[str, ...] = ()
    key: str | None = None
    tier: str | None = None
    counts: Mapping[str, Number] = field(default_factory=dict)
    empty: bool = False


class Format(NamedTuple):
    """How a provider's results are read. `sums`: by the result's `object`, "" for those without or with another."""

    expected: str
    time: str
    sums: Mapping[str, Sums]
    costs: Mapping[str, Number]  # a field with money -> a unit of it in 10⁻⁹ US dollars
    models: tuple[str, ...] = ("model",)
    key: str = "api_key_id"


CACHE_WRITES: Final = ("cache_creation.ephemeral_1h_input_tokens", "cache_creation.ephemeral_5m_input_tokens")
FORMATS: Final[Mapping[str, Format]] = {
    "openai": Format(
        expected="pages of /v1/organization/usage/completions or /v1/organization/costs, with group_by model",
        time="start_time",
        sums={
            "": {
                "requests": ("num_model_requests",),
                "input_tokens": ("input_tokens",),
                "cache_read_tokens": ("input_cached_tokens",),
                "cache_write_tokens": ("input_cache_write_tokens",),
                "output_tokens": ("output_tokens",),
                "input_audio_tokens": ("input_audio_tokens", "input_cached_audio_tokens"),
                "cache_audio_read_tokens": ("input_cached_audio_tokens",),
                "output_audio_tokens": ("output_audio_tokens",),
                "input_image_tokens": ("input_image_tokens", "input_cached_image_tokens"),
                "cache_image_read_tokens": ("input_cached_image_tokens",),
                "output_image_tokens": ("output_image_tokens",),
            },
            "organization.usage.web_searches.result": {"web_searches": ("num_requests",)},
            "organization.usage.file_searches.result": {"storage_searches": ("num_requests",)},
            "organization.usage.audio_transcriptions.result": {
                "requests": ("num_model_requests",),
                "audio_seconds": ("seconds",),
            },
        },
        costs={"amount.value": NANO},
    ),
    "anthropic": Format(
        expected="pages of /v1/organizations/usage_report/messages or /cost_report, with group_by model",
        time="starting_at",
        sums={
            "": {
                "requests": ("requests",),
                "input_tokens": ("uncached_input_tokens", "cache_read_input_tokens", *CACHE_WRITES),
                "cache_read_tokens": ("cache_read_input_tokens",),
                "cache_write_tokens": CACHE_WRITES,
                "cache_write_1h_tokens": CACHE_WRITES[:1],
                "output_tokens": ("output_tokens",),
                "web_searches": ("server_tool_use.web_search_requests",),
            }
        },
        costs={"amount": NANO // 100},  # in cents
    ),
    "openrouter": Format(
        expected="what /api/v1/activity returns, or the same rows as CSV",
        time="date",
        sums={
            "": {
                "requests": ("requests",),
                "input_tokens": ("prompt_tokens",),
                "output_tokens": ("completion_tokens",),
                "thinking_tokens": ("reasoning_tokens",),
            }
        },
        costs={"usage": NANO, "byok_usage_inference": NANO},
        models=("model", "model_permaslug"),
    ),
}

DECODER: Final = json.JSONDecoder(parse_float=Decimal)
SCALAR: Final = r'(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)'
MEMBER: Final = rf'"[^"\\]*"\s*:\s*{SCALAR}'
# What is around buckets: the head of a page up to its `data`, the members after them, and punctuation.
AROUND: Final = re.compile(rf'[\s,]+|(?P<page>\{{\s*(?:{MEMBER}\s*,\s*)*"data"\s*:\s*\[)|[\[\]}}]|{MEMBER}')


def read_export(provider: str, file: TextIO) -> Iterator[Billed]:
    """Yield what a provider's export counts; a bucket without results gives its day alone.

    Raises CallerError for a file that is no such export.
    """
    known = FORMATS[provider]
    try:
        for bucket in _buckets(file):
            results = bucket.get("results")
            if results == []:
                yield Billed(_day(bucket, known), empty=True)
            for result in results if isinstance(results, list) else [bucket]:
                if not isinstance(result, dict):
                    raise Malformed("a result is no object")
                yield _billed({**bucket, **result}, known)
    except (ValueError, RecursionError, csv.Error) as error:
        raise CallerError(f"this is no usage of {provider}: {error}; expected: {known.expected}") from None


def _buckets(file: TextIO) -> Iterator[Fields]:
    head = next((line for line in iter(lambda: file.readline(CHUNK), "") if line.strip()), "")
    if head.lstrip()[:1] in ("{", "["):
        yield from _objects(head, file)
    else:
        yield from csv.DictReader(chain([head], file))


def _objects(text: str, file: TextIO) -> Iterator[Fields]:
    """Yield the objects in the pages of a JSON text; `text`: its beginning, which was read already."""
    at = levels = 0
    ahead = CHUNK
    while True:
        if len(text) - at < ahead and (more := file.read(ahead)):
            text, at = text[at:] + more, 0
            continue
        around = AROUND.match(text, at)
        if around is not None:
            found = around.group()
            levels += 2 if around["page"] else {"[": 1, "]": -1, "}": -1}.get(found, 0)
            if levels < 0 or (found.startswith('"') and not levels):
                raise Malformed("the JSON is damaged")
            at = around.end()
        elif at == len(text):
            break
        else:
            try:
                value, at = DECODER.raw_decode(text, at)
            except ValueError:
                if len(text) - at < ahead or ahead >= LARGEST:  # there is no more to be read, or too much
                    raise Malformed("the JSON is damaged or cut off") from None
                ahead *= 2
                continue
            if not isinstance(value, dict):
                raise Malformed("it is JSON of another form")
            ahead = CHUNK
            yield value
    if levels:
        raise Malformed("the JSON is cut off")


def _billed(result: Fields, known: Format) -> Billed:
    kind = result.get("object")
    sums = known.sums.get(kind if isinstance(kind, str) else "", known.sums[""])
    counts: dict[str, Number] = {}
    for name, paths in sums.items():
        values = [int(value) for value in (_number(_at(result, path)) for path in paths) if value is not None]
        if values:
            counts[name] = sum(values)
            if min(values) < 0:
                raise Malformed(f"{name} are below 0")
    costs = [(_number(_at(result, path)), unit) for path, unit in known.costs.items()]
    told = [Decimal(value) * unit for value, unit in costs if value is not None]
    if told:
        currency = _at(result, "amount.currency") or result.get("currency") or "usd"
        if str(currency).lower() != "usd":
            raise Malformed(f"its costs are in {currency!r:.20}, and not in US dollars")
        counts[COST] = sum(told, Decimal(0))
    if not counts and not isinstance(kind, str):
        raise Malformed(f"a result has none of {', '.join({path for paths in sums.values() for path in paths})}"[:300])
    tier = "batch" if result.get("batch") in (True, "true", "True") else tier_of(result)
    models = dict.fromkeys(text for key in known.models if isinstance(text := result.get(key), str) and text)
    by = result.get(known.key)
    return Billed(_day(result, known), tuple(models), by if isinstance(by, str) and by else None, tier, counts)


def _day(result: Fields, known: Format) -> str:
    """Return the day in UTC of a bucket, which begins at seconds since 1970 or a text."""
    began = result.get(known.time)
    if isinstance(began, int) or (isinstance(began, str) and began.isdigit()):
        at = epoch_ms(int(began) * 1000) if not isinstance(began, bool) else None
    else:
        at = epoch_ms(began) if isinstance(began, str) else None
    if not at:
        raise Malformed(f"it has no time in {known.time}")
    return iso(at)[:10]


def _at(result: Fields, path: str) -> Any:
    return at(result, tuple(path.split(".")))


def _number(value: Any) -> Number | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise Malformed(f"{value!r:.40} is no number")
    try:
        number = Decimal(value)
        within = abs(number) < LARGEST_NUMBER
    except ArithmeticError:
        within = False
    if not within:
        raise Malformed(f"{value!r:.40} is no number")
    return number
