"""Whose a run is: its user, tags, environment, project and branch. Reports and lists filter and group by them. Pure."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

SINGLE: Final = ("user", "environment", "project", "branch")
KINDS: Final = (*SINGLE, "tag")  # as filters and groups are called
KEYS: Final = (*SINGLE, "tags")  # as a run's record has them
CHARACTERS: Final = 200  # of a label; the rest is cut off
TAGS: Final = 20  # of a run
HEADERS: Final = {f"turnmill-{key}": key for key in KEYS}
# Where the APIs of providers name the user, beside `metadata`.
USERS: Final = ("safety_identifier", "user")
LABELLING: Final = frozenset((*USERS, "metadata", "requestMetadata"))  # members of a request that can have a label
# Claude Code's user, as it names it in `metadata.user_id`: with its session, which changes, or as JSON.
SESSION: Final = re.compile(r"_session_[0-9a-fA-F-]{36}\Z")
ACCOUNTS: Final = tuple(re.compile(rf'"{name}": ?"([^"]+)"') for name in ("account_uuid", "device_id"))


def labels_of(info: Mapping[str, Any], request: Any = None, session: Any = None) -> dict[str, Any]:
    """Return a run's labels by KEYS, those that are known; any JSON is taken.

    `info`: what its publisher says, which takes precedence over `request`, the body of a call to a model, and over
    `session`, the folder and the branch that a coding agent works in.
    """
    labels: dict[str, Any] = {}
    for source in filter(None, (info, _requested(request), _worked_in(session))):
        for key in SINGLE:
            if key not in labels and (label := _label(source.get(key))):
                labels[key] = label
        if "tags" not in labels and (tags := list(dict.fromkeys(_tags(source.get("tags"))))):
            labels["tags"] = tags[:TAGS]
    return labels


def pairs(labels: Any) -> list[tuple[str, str]]:
    """Return labels as (kind, label), each once; those of a foreign record may be any JSON."""
    known = labels_of(labels) if isinstance(labels, dict) else {}
    single = [(key, known[key]) for key in SINGLE if key in known]
    return [*single, *(("tag", tag) for tag in known.get("tags", ()))]


def of_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the labels in a request's headers, whose names are in lower case: `Turnmill-User` and its kin."""
    return labels_of({key: headers[name] for name, key in HEADERS.items() if name in headers})


def parsed(setting: str) -> dict[str, Any]:
    """Parse `user=ada,tag=beta,tag=eu`. Raises ValueError."""
    given: dict[str, Any] = {"tags": []}
    for entry in filter(None, (piece.strip() for piece in setting.split(","))):
        kind, _, label = (piece.strip() for piece in entry.partition("="))
        if kind not in KINDS or not label:
            raise ValueError(f"kind=label,… is expected, with {', '.join(KINDS)}, not {entry!r:.80}")
        if kind == "tag":
            given["tags"].append(label)
        else:
            given[kind] = label
    return labels_of(given)


def _label(value: Any) -> str | None:
    return value.strip()[:CHARACTERS] or None if isinstance(value, str) else None


def _tags(value: Any) -> Iterator[str]:
    """Yield the tags of a list, or of a text with commas between them."""
    for tag in value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ():
        if label := _label(tag):
            yield label


def _requested(request: Any) -> dict[str, Any]:
    if not isinstance(request, dict) or LABELLING.isdisjoint(request):
        return {}
    kept = request.get("metadata", request.get("requestMetadata"))  # the latter is Bedrock's
    metadata = kept if isinstance(kept, dict) else {}
    users = [metadata.get("user_id"), *(request.get(name) for name in USERS), metadata.get("user")]
    user = next((user for user in users if isinstance(user, str) and user.strip()), None)
    return {**metadata, "user": user and _person(user)}


def _person(user: str) -> str:
    known = (account.search(user) for account in ACCOUNTS) if user.startswith("{") else ()
    account = next(filter(None, known), None)
    return SESSION.sub("", user) if account is None else account[1]


def _worked_in(session: Any) -> dict[str, Any]:
    """Return project and branch: the last part of the folder's name, and the branch of its repository."""
    if not isinstance(session, dict) or not session:
        return {}
    folder = session.get("cwd")
    known = {"branch": session.get("git_branch")}
    if isinstance(folder, str):
        known["project"] = (PureWindowsPath if "\\" in folder else PurePosixPath)(folder).name
    return known
