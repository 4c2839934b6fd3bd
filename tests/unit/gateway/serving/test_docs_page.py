"""The fields of a body, as `/docs` lists them."""

from pipeline.gateway.serving.docs_page import fields_of

STEP = {
    "properties": {
        "name": {"type": "string", "description": "Its `name`."},
        "steps": {"$ref": "#/components/schemas/Steps"},
    },
    "required": ["name"],
}
STEPS = {"type": "array", "items": {"$ref": "#/components/schemas/Step"}}


def test_fields_are_listed_by_their_paths_and_what_contains_itself_once() -> None:
    count = {"anyOf": [{"type": "integer", "minimum": 1.0, "maximum": 1e6}, {"type": "null"}], "default": None}
    body = {"properties": {"count": count, "steps": {"$ref": "#/components/schemas/Steps"}}, "required": ["steps"]}
    assert list(fields_of(body, {"Step": STEP, "Steps": STEPS})) == [
        ("count", "integer, 1 to 1,000,000 or null", ""),
        ("steps", "object", ""),
        ("steps[].name", "string", "Its `name`."),
        ("steps[].steps", "object, may be left out", ""),
    ]
