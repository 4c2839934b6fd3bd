"""Documents that a JSON Schema describes, and such with a fault, drawn from the schema itself."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from topics.json_text import Fields

WHOLE = st.integers(-(2**53), 2**53)
TEXT = st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), WHOLE, WHOLE.map(float), st.floats(allow_nan=False, allow_infinity=False), TEXT
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


def documents(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that are valid; integers are also written as numbers with a point, which is the same to JSON Schema."""
    return _valid(schema, schema.get("$defs", {}))


@st.composite
def with_a_fault(draw: st.DrawFn, schema: Mapping[str, Any]) -> Any:
    """A document that is valid but for a value, which is anything, or nothing at all; it may be valid by chance."""
    document = draw(documents(schema))
    inner: Fields = document
    while True:
        key = draw(st.sampled_from(sorted({*inner, "more"})))
        below = inner.get(key)
        if not (isinstance(below, dict) and below and draw(st.booleans())):
            break
        inner = below
    if isinstance(below, list) and below and draw(st.booleans()):
        below[draw(st.integers(0, len(below) - 1))] = draw(JSON)
    elif draw(st.integers(0, 4)):
        inner[key] = draw(st.one_of(JSON, _edges(below)))
    else:
        inner.pop(key, None)
    return document


def _edges(value: Any) -> st.SearchStrategy[Any]:
    """Values like this, about as large as bounds are."""
    if isinstance(value, str):
        return st.sampled_from(
            [value + "\n", value.upper(), value[1:], value * 2, *("ü" * n for n in (200, 201, 1000, 1001))]
        )
    return st.sampled_from([2**53 - 1, 2**53, float(2**53 - 1), float(2**53), -1, -0.0, 0.5, 1e300, True])


def _valid(schema: Mapping[str, Any], kinds: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _valid(kinds[schema["$ref"].rpartition("/")[2]], kinds)
    if "anyOf" in schema:
        return st.one_of([_valid(each, kinds) for each in schema["anyOf"]])
    if "const" in schema:
        return _with_points(st.just(schema["const"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"].removesuffix("$") + r"\Z")
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 12), 12))
        case "integer":
            return _with_points(st.integers(schema.get("minimum", -(2**53)), schema.get("maximum", 2**53)))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(_valid(schema.get("items", {}), kinds), max_size=4)
        case "object":
            given = {name: _valid(inner, kinds) for name, inner in schema.get("properties", {}).items()}
            needed = {name: given.pop(name) for name in schema.get("required", ())}
            return st.builds(lambda more, of: {**more, **of}, MORE, st.fixed_dictionaries(needed, optional=given))
    return JSON


MORE = st.dictionaries(TEXT, JSON, max_size=2)


def _with_points(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda value, point: float(value) if point and value == float(value) else value, values, st.booleans()
    )
