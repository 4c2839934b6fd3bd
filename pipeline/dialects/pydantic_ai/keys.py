"""`meta:*` keys of turns from Pydantic AI: fields of its messages that ThreadProtocol lacks.

The keys are not part of the canonical hash; `messages` writes them, `export` restores the SDK's messages from them.
"""

from typing import Any, Final

EXACT: Final = "meta:pydantic_ai"  # of a message or user turn: its fields beside ThreadProtocol's; null: it had none
ARGS: Final = "meta:args"  # of a call: how its arguments were written, if not as data: none, empty, text, a style
ARGS_TEXT: Final = "meta:args_text"  # of a call: the text of its arguments, if no style restores it
EMPTY: Final = "meta:empty"  # of a part: the SDK keeps it without content
PROMPT_AT: Final = "meta:user_prompt_at"  # of a turn's first request: the positions of the user turn's parts in it
OF_CALL: Final = "meta:tool_call_id"  # of a prompt: the call whose tool returned it beside its result
IMPLIED: Final = "meta:implied"  # of a result: it is in the SDK's messages, but not in the stream

# The SDK's result of the output tool that ended a run, and of the calls beside it.
PROCESSED: Final = "Final result processed."
NOT_EXECUTED: Final = "Tool not executed - a final result was already processed."

INVALID: Final = "INVALID_JSON"  # the only key of arguments that are not JSON: their text, as in its Vercel adapter

# How JSON text of arguments is commonly written, as arguments of `json.dumps`.
ARGS_STYLES: Final[dict[str, dict[str, Any]]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":")},
    "spaced-ascii": {},
}
