"""Whether one JSON Schema allows all that another one does, for the keywords that our schemas have.

It is strict: what it can't prove is a problem. Only one thing is allowed that the specification does not: a property
that the narrower schema does not name may come to be named, as unknown ones were allowed there and nobody sent them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Schema = dict[str, Any]
SAY_NOTHING: Final = frozenset(
    {"$schema", "$id", "$defs", "title", "description", "default", "examples", "format", "discriminator"}
)
BOUNDS: Final = {"minLength": -1, "minItems": -1, "minimum": -1, "maxLength": 1, "maxItems": 1, "maximum": 1}
EQUAL: Final = ("pattern", "not", "prefixItems")
HANDLED: Final = {"type", "enum", "const", "anyOf", "oneOf", "properties", "required", "additionalProperties", "items"}


@dataclass
class Comparison:
    """Of two documents, whose references lead to their own `$defs`."""

    wide: Schema
    narrow: Schema
    seen: set[tuple[int, int]] = field(default_factory=set)

    def problems(self) -> list[str]:
        """What the narrow one allows and the wide one does not; empty where there is no such thing."""
        return list(self.walk(self.wide, self.narrow, "$"))

    def walk(self, wide: Any, narrow: Any, path: str) -> Iterator[str]:
        wide, narrow = resolved(self.wide, wide), resolved(self.narrow, narrow)
        if (id(wide), id(narrow)) in self.seen:
            return
        self.seen.add((id(wide), id(narrow)))
        if wide is True or not wide.keys() - SAY_NOTHING:
            return
        unknown = (wide.keys() | narrow.keys()) - SAY_NOTHING - HANDLED - BOUNDS.keys() - {*EQUAL, "$ref"}
        if unknown:
            yield f"{path}: {sorted(unknown)} can't be compared"
        for option in options(narrow):
            if option is not narrow:
                yield from self.walk(wide, option, path)
        if options(narrow) == [narrow]:
            yield from self.one(wide, narrow, path)

    def one(self, wide: Schema, narrow: Schema, path: str) -> Iterator[str]:
        choices = options(wide)
        if choices != [wide]:
            found = [list(Comparison(self.wide, self.narrow).walk(choice, narrow, path)) for choice in choices]
            if all(found):
                yield f"{path}: none of {len(choices)} alternatives takes what was allowed: {found[0][0]}"
            return
        values = narrow.get("enum", [narrow["const"]] if "const" in narrow else None)
        allowed = wide.get("enum", [wide["const"]] if "const" in wide else None)
        if allowed is not None and (values is None or any(value not in allowed for value in values)):
            yield f"{path}: only {allowed} is allowed, it was {values or 'anything'}"
        if "type" in wide and wide["type"] != narrow.get("type") and (wide["type"], narrow.get("type")) != NUMBERS:
            yield f"{path}: the type is {wide['type']}, it was {narrow.get('type', 'any')}"
        for keyword, sign in BOUNDS.items():
            if keyword in wide and (keyword not in narrow or sign * (narrow[keyword] - wide[keyword]) > 0):
                yield f"{path}: {keyword} is {wide[keyword]}, it was {narrow.get(keyword)}"
        for keyword in EQUAL:
            if keyword in wide and wide[keyword] != narrow.get(keyword):
                yield f"{path}: {keyword} is another one"
        yield from self.members(wide, narrow, path)

    def members(self, wide: Schema, narrow: Schema, path: str) -> Iterator[str]:
        for name in sorted({*wide.get("required", ())} - {*narrow.get("required", ())}):
            yield f"{path}.{name} is required, it was not"
        named = narrow.get("properties", {})
        others = wide.get("additionalProperties", True)
        for name, schema in named.items():
            inside = wide.get("properties", {}).get(name, others)
            if inside is False:
                yield f"{path}.{name} is not allowed, it was"
            else:
                yield from self.walk(inside, schema, f"{path}.{name}")
        if isinstance(others, dict) or (others is False and narrow.get("additionalProperties", True) is not False):
            before = narrow.get("additionalProperties", True)
            if before is True:
                yield f"{path}: other properties are bounded, they were not"
            elif isinstance(before, dict) and isinstance(others, dict):
                yield from self.walk(others, before, f"{path}.*")
        if "items" in wide:
            if "items" not in narrow:
                yield f"{path}: items are bounded, they were not"
            else:
                yield from self.walk(wide["items"], narrow["items"], f"{path}[]")


NUMBERS: Final = ("number", "integer")  # of which the first has all values of the second


def options(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, itself where it has none."""
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def resolved(document: Schema, schema: Any) -> Any:
    """What a reference leads to."""
    while isinstance(schema, dict) and "$ref" in schema:
        schema = document["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema
