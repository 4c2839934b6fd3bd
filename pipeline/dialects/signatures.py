"""Signatures of Gemini's thoughts, which stand with the calls and texts behind them on any wire. Pure."""

from typing import Final

from topics.json_text import Fields, object_of

SIGNATURE: Final = "meta:thought_signature"  # of a part


def signature_of(part: Fields) -> str | None:
    """Return the signature that Google wants back with a call or a text, from whatever wire the part came.

    Pydantic AI has it in its details; a signature of pi that is JSON is another provider's.
    """
    signature = part.get(SIGNATURE, object_of(part.get("provider_details")).get("thought_signature"))
    return signature if isinstance(signature, str) and not signature.startswith("{") else None
