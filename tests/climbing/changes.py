"""JSON -> the same with more in it: repeated, nested, lengthened, numbered anew, or from another input. Pure."""

import json
import re
from random import Random
from typing import Any, Final

import orjson

MOST: Final = 65_536  # bytes of an input
ROOM: Final = MOST * 3 // 4  # for copies, which get longer by their numbers
COPIES: Final = (2, 8, 64, 512, 4096)
LEVELS: Final = (1, 8, 64, 500, 900)
IDENTITY: Final = re.compile(r"id$|index|name|seq|key|uuid|cursor|position|number", re.IGNORECASE)
TEXTS: Final = ("", "\0", "\ud800", "[],", "{}", '{"a":', "[", '"a":1,', "0,", "\n", "é", "的", "\\", "%", "*", "a b ")
HOSTILE: Final = (
    None,
    True,
    0,
    -1,
    2**53 - 1,
    2**63,
    10**300,
    1e308,
    0.1,
    "",
    [],
    {},
    [[]],
    {"": {}},
    "2026-01-20T10:00:00Z",
)
NUMBERS: Final = (lambda n: n + 1, lambda n: -n, lambda n: n * 10, lambda n: n * 1000, lambda n: n * 10**9)


def changed(value: Any, rng: Random, donors: list[Any]) -> Any:
    """Change one place, or some. An input that would become far larger than MOST stays as it is."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        try:
            new = _changed(value, rng, donors)
            if size(new) <= 2 * MOST:
                value = new
        except RecursionError:
            pass
    return value


def size(value: Any) -> int:
    """Bytes of its JSON."""
    try:
        return len(orjson.dumps(value))
    except TypeError:  # half pairs of surrogates, large integers, deep nesting
        return len(json.dumps(value, separators=(",", ":")))


def _changed(value: Any, rng: Random, donors: list[Any]) -> Any:
    roll = rng.random()
    if isinstance(value, dict) and value and roll < 0.9:
        return _object(value, rng, donors, roll / 0.9)
    if isinstance(value, list) and value and roll < 0.9:
        return _array(value, rng, donors, roll / 0.9)
    if isinstance(value, str) and roll < 0.85:
        return _text(value, rng, donors)
    if isinstance(value, int | float) and not isinstance(value, bool) and roll < 0.6:
        return rng.choice(NUMBERS)(value) if abs(value) < 10**300 else 1
    return _replaced(value, rng, donors)


def _object(value: dict[str, Any], rng: Random, donors: list[Any], roll: float) -> Any:
    key = rng.choice(list(value))
    if roll < 0.7:
        return {**value, key: _changed(value[key], rng, donors)}
    if roll < 0.85:
        return {**value, **{f"{key}{n}": value[key] for n in range(_copies([key, value[key]], rng))}}
    if roll < 0.92:
        return {name: item for name, item in value.items() if name != key}
    doubled = json.dumps(value)[:-1] + f",{json.dumps({key: value[key]})[1:-1]}" * _copies([key, value[key]], rng) + "}"
    return doubled if roll < 0.95 else {**value, key: _replaced(value[key], rng, donors)}


def _array(value: list[Any], rng: Random, donors: list[Any], roll: float) -> Any:
    at = rng.randrange(len(value))
    if roll < 0.4:
        return [*value[:at], _changed(value[at], rng, donors), *value[at + 1 :]]
    if roll < 0.9:
        end = min(len(value), at + rng.choice((1, 1, 2, 3, 8)))
        some, count = value[at:end], _copies(value[at:end], rng)
        again = some * count if rng.random() < 0.4 else [renamed(item, n) for n in range(count) for item in some]
        return [*value[:end], *again, *value[end:]]
    if roll < 0.97:
        return [*value[:at], *value[at + 1 :]]
    return rng.sample(value, len(value))


def _text(value: str, rng: Random, donors: list[Any]) -> str:
    if value[:1] in ("{", "[") and rng.random() < 0.5:
        try:
            new = _changed(json.loads(value), rng, donors)
            return new if isinstance(new, str) else json.dumps(new)
        except ValueError:
            pass
    if "\n" in value and rng.random() < 0.7:
        lines = value.split("\n")
        at = rng.randrange(len(lines))
        head, brace, rest = lines[at].partition("{")
        if rng.random() < 0.5 and brace:
            return "\n".join([*lines[:at], head + _text(brace + rest, rng, donors), *lines[at + 1 :]])
        some = lines[at : at + rng.choice((1, 2, 4))]
        return "\n".join([*lines[:at], *some * _copies(some, rng), *lines[at:]])
    if value and rng.random() < 0.4:
        begin = rng.randrange(len(value))
        end = min(len(value), begin + rng.choice((1, 2, 8, 64, 4096)))
        return value[:end] + value[begin:end] * _copies(value[begin:end], rng) + value[end:]
    piece, at = rng.choice(TEXTS), rng.randint(0, len(value))
    piece *= _copies(piece, rng)
    return piece if rng.random() < 0.3 else value[:at] + piece + value[at:]


def _replaced(value: Any, rng: Random, donors: list[Any]) -> Any:
    roll = rng.random()
    if roll < 0.35:
        return nested(value, rng.choice(LEVELS), rng.choice(("", "a", "content")))
    if roll < 0.7:
        return _part(rng.choice(donors), rng)
    if roll < 0.8:
        return [value] * _copies(value, rng)
    return rng.choice(HOSTILE)


def nested(value: Any, levels: int, key: str) -> Any:
    """Put it that many levels down: in arrays, or in objects under `key`."""
    for _ in range(levels):
        value = {key: value} if key else [value]
    return value


def renamed(value: Any, number: int, key: str = "") -> Any:
    """Give its ids, names and numbers of places others."""
    if isinstance(value, dict):
        return {name: renamed(item, number, name) for name, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, number, key) for item in value]
    if IDENTITY.search(key) and isinstance(value, str):
        return f"{value}{number}"
    if IDENTITY.search(key) and type(value) is int:
        return value + number
    return value


def _part(value: Any, rng: Random) -> Any:
    while isinstance(value, dict | list) and value and rng.random() < 0.8:
        value = rng.choice(list(value.values()) if isinstance(value, dict) else value)
    return value


def _copies(value: Any, rng: Random) -> int:
    return min(rng.choice(COPIES), max(1, ROOM // (size(value) + 4)))
