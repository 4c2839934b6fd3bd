"""Forks of the sessions in `sessions.py`, as the programs write them: `held` is how much of the origin is copied."""

from typing import Any

from tests.support.sessions import Claude, Codex, Copilot, Gemini, Opencode, named


def forked_claude(origin: Claude, held: int | None, name: str) -> Claude:
    """As `fork_session` of the Agent SDK: other uuids, and where each line is from."""
    fork = Claude(name)
    ids: dict[Any, str | None] = {None: None}
    for line in origin.lines[:held]:
        assert isinstance(line, dict)
        ids[line["uuid"]] = named(f"{name}/{line['uuid']}")
        source = {"sessionId": origin.session, "messageUuid": line["uuid"]}
        moved = {"uuid": ids[line["uuid"]], "parentUuid": ids[line["parentUuid"]], "sessionId": fork.session}
        fork.lines.append({**line, **moved, "forkedFrom": source})
        fork.last = moved["uuid"]
    return fork


def resumed_claude(origin: Claude, held: int, name: str) -> Claude:
    """As Claude Code once resumed a session: in a new file, with the lines of the old one."""
    fork = Claude(name)
    fork.lines = [{**line, "sessionId": fork.session} for line in origin.lines[:held] if isinstance(line, dict)]
    fork.last, fork._second = fork.lines[-1]["uuid"], 100 + len(origin.lines)  # type: ignore[index]  # all lines are objects here
    return fork


def forked_codex(origin: Codex, held: int, name: str) -> Codex:
    fork = Codex(name, forked_from_id=origin.session)
    fork.lines += origin.lines[:held]
    fork.total = origin.total
    return fork


def forked_copilot(origin: Copilot, held: int, name: str) -> Copilot:
    fork = Copilot(name)
    fork.lines += origin.lines[1:held]
    fork.last, fork._second = fork.lines[-1]["id"], 100 + len(origin.lines)  # type: ignore[index]  # all lines are objects here
    return fork


def copied_gemini(origin: Gemini, held: int, name: str) -> Gemini:
    """A copy of the file under another session."""
    fork = Gemini(name)
    fork.lines += origin.lines[1:held]
    fork._second = origin._second
    return fork


def forked_opencode(origin: Opencode, held: int, name: str) -> Opencode:
    """Messages and parts get other ids, and keep their times."""
    fork = Opencode(name, at=origin._at)
    for message, parts in origin.rows[:held]:
        renamed = [{**part, "id": f"{part['id']}_{name}"} for part in parts]
        fork.rows.append(({**message, "id": f"{message['id']}_{name}"}, renamed))
    return fork
