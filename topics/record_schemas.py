"""JSON Schemas of the topics' records, in files of this package: `topics/schemas/TOPIC.vN.json`.

N is the records' version, `v`. Within one version a schema may only change so that existing programs still work: on
`events`, the records of old producers stay valid; on the others, new records stay valid for old consumers. `make docs`
writes the files; https://json-schema.org/draft/2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from topics import control, dead_letter, feedback, notice, state, telemetry, turn_record
from topics.catalog import CATALOG, CONTROL, DEAD_LETTERS, EVENTS, FEEDBACK, NOTICES, STATE, TELEMETRY, TURNS, Topic
from topics.record_models import MODELS, dead_letter_headers
from turnmill.wire import envelope

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSIONS: Final[Mapping[str, int]] = {
    EVENTS.name: envelope.VERSION,
    TURNS.name: turn_record.VERSION,
    TELEMETRY.name: telemetry.VERSION,
    DEAD_LETTERS.name: dead_letter.VERSION,
    STATE.name: state.VERSION,
    NOTICES.name: notice.VERSION,
    FEEDBACK.name: feedback.VERSION,
    CONTROL.name: control.VERSION,
}


def schema_id(topic: Topic) -> str:
    """Return the `$id` of the schema of a topic's records."""
    return f"urn:turnmill:schema:{topic.name}:{VERSIONS[topic.name]}"


def made(topic: Topic) -> dict[str, Any]:
    """Return the schema made from the code: of a record's value, or of its headers if the value may be any bytes."""
    head = {"$schema": DRAFT, "$id": schema_id(topic), "title": topic.value, "description": topic.summary}
    if topic is DEAD_LETTERS:
        return {**head, "description": f"{topic.summary} These are its headers.", **dead_letter_headers()}
    models = MODELS[topic.name]
    definitions = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")[1]
    kinds = [{"$ref": f"#/$defs/{model.__name__}"} for model in models]
    return {**head, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), "$defs": definitions["$defs"]}


def texts() -> dict[str, str]:
    """Return the text of each schema file, by its name."""
    return {name(topic): json.dumps(made(topic), indent=2, ensure_ascii=False) + "\n" for topic in CATALOG}


def name(topic: Topic) -> str:
    """Return the file name of a topic's schema."""
    return f"{topic.name}.v{VERSIONS[topic.name]}.json"


def packaged(topic: Topic) -> str:
    """Return the text of the schema file in the package."""
    return (files("topics") / "schemas" / name(topic)).read_text("utf-8")
