"""Kinds of ThreadProtocol's parts, by what they say of a tool.

Tuples: a part of somebody else's document may have a kind of any JSON type, not all of which have a hash.
"""

from typing import Final

CALLS: Final = ("tool-call", "builtin-tool-call")
RETURNS: Final = ("tool-return", "builtin-tool-return")
ANSWERS: Final = ("tool-return", "retry-prompt")  # these come from outside the model
RESULTS: Final = (*RETURNS, "retry-prompt")
