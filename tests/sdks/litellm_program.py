"""Runs inside an environment with litellm: streams of calls, as its proxy writes them. Prints {words: their chunks}.

litellm_program.py ADDRESS '{"WORDS": "MODEL", …}'
"""

import json
import sys
from typing import Any

import litellm


def chunks(model: str, address: str, words: str) -> list[Any]:
    asked = [{"role": "user", "content": words}]
    heard: list[Any] = []
    try:
        stream = litellm.completion(
            model=model,
            api_base=address,
            api_key="k",
            messages=asked,
            stream=True,
            stream_options={"include_usage": True},
        )
        heard.extend(json.loads(chunk.model_dump_json(exclude_none=True, exclude_unset=True)) for chunk in stream)
    except Exception as error:  # whatever it raises, its proxy writes like this
        heard.append({"error": {"message": str(error), "type": type(error).__name__}})
    return heard


if __name__ == "__main__":
    made = {words: chunks(model, sys.argv[1], words) for words, model in json.loads(sys.argv[2]).items()}
    print(json.dumps(made))  # noqa: T201  # its result
