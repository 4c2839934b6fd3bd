"""The JSON Schemas of the topics' records, made from their models: the files `topics/schemas/TOPIC.vN.json`."""

import json
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from topics.catalog import CATALOG, DEAD_LETTERS, Topic
from topics.record_schemas import MODELS, dead_letter_headers, name, schema_id

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


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
