"""Ids that clients and pipeline must derive alike: of threads and turns."""

import re
from hashlib import sha1
from uuid import UUID, uuid5

UUID_FORMS = re.compile(r"(urn:uuid:)?\{?[0-9a-fA-F]{8}(-?)([0-9a-fA-F]{4}\2){3}[0-9a-fA-F]{12}\}?")
# Fixed for ever: stored ids depend on it.
NAMESPACE = UUID("6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11")
TRACE_RUN = re.compile(r"([0-9a-f]{32})(?:\.[0-9a-f]{16})?")  # the id of a trace, and that of a later run's first span
UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def thread_uuid(conversation_id: str, tenant: str | None = None) -> tuple[str, str | None]:
    """Return (thread_id, external_id): (canonical UUID, None) for a UUID, (UUIDv5, the id) for any other id.

    Two tenants may use the same id for their conversations, so with `tenant` the UUIDv5 is made of both.
    """
    if UUID_FORMS.fullmatch(conversation_id):  # UUID() alone takes more: underscores, spaces, other scripts' digits
        return str(UUID(conversation_id)), None
    namespace = uuid5(NAMESPACE, f"tenant {whole_text(tenant)}") if tenant else NAMESPACE
    return str(uuid5(namespace, whole_text(conversation_id))), conversation_id


def trace_thread(run_id: str, tenant: str | None = None) -> str | None:
    """Return the id of the thread in which the spans of a trace come, by the id of a run of it; None for other ids."""
    trace = TRACE_RUN.fullmatch(run_id)
    return None if trace is None else thread_uuid(f"trace {trace[1]}", tenant)[0]


def is_uuid(value: object) -> bool:
    """Return True if `value` is a UUID in its canonical text form (36 characters, hyphens, any case)."""
    return isinstance(value, str) and UUID_TEXT.fullmatch(value) is not None


def turn_id(thread_id: str, run_id: str, ordinal: str = "") -> str:
    """Return the UUIDv5 of a turn: of (thread, run), and of its `ordinal` where one run has several turns."""
    name = f"{run_id}#{ordinal}" if ordinal else run_id
    # RFC 9562, 5.5, as uuid5() does it, without its objects: they are a tenth of what the end of a turn costs.
    thread = bytes.fromhex(thread_id.replace("-", ""))
    digits = sha1(thread + name.encode("utf-8", "backslashreplace"), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def whole_text(name: str) -> str:
    """Return a name with lone surrogates as escapes: JSON can contain them, but UTF-8 and names in envelopes can't."""
    return name.encode("utf-8", "backslashreplace").decode()
