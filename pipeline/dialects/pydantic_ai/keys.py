"""`meta:*` keys of turns from Pydantic AI: fields of its messages that ThreadProtocol lacks.

The keys are out of the canonical hash; `messages` writes them, `export` restores the SDK's messages from them.
"""

from __future__ import annotations

from typing import Any, Final

EXACT: Final = "meta:pydantic_ai"  # of a message or user turn: its fields beside ThreadProtocol's; null: it had none
ARGS: Final = "meta:args"  # of a call: how its arguments were written, where not as data: none, empty, text, a style
ARGS_TEXT: Final = "meta:args_text"  # of a call: the text of its arguments, where no style gives it back
EMPTY: Final = "meta:empty"  # of a part: the SDK keeps it without content
PROMPT_AT: Final = "meta:user_prompt_at"  # of a turn's first request: where the user turn's parts stood in it
OF_CALL: Final = "meta:tool_call_id"  # of a prompt: the call whose tool gave it beside its result
IMPLIED: Final = "meta:implied"  # of a result: the SDK's messages hold it, but the wire does not carry it

# The SDK's result of the output tool that ended a run, and of the calls beside it.
PROCESSED: Final = "Final result processed."
NOT_EXECUTED: Final = "Tool not executed - a final result was already processed."

INVALID: Final = "INVALID_JSON"  # the one key of arguments that are no JSON: their text, as in its Vercel adapter

# How JSON text of arguments is commonly written, as arguments of `json.dumps`.
ARGS_STYLES: Final[dict[str, dict[str, Any]]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":")},
    "spaced-ascii": {},
}
