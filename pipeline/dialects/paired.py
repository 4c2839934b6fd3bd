"""Messages of an export: each call of a tool with its result and each result with its call, as servers ask."""

from __future__ import annotations

from dataclasses import dataclass

from topics.json_text import Fields


@dataclass(frozen=True, slots=True)
class Names:
    """What a format calls these things. `words`: the keys for which a message without calls is worth keeping."""

    role: str
    assistant: str
    tool: str
    answers: str  # the key of a result that names its call
    calls: tuple[str, ...]
    words: tuple[str, ...]


def paired(found: list[Fields], names: Names) -> list[Fields]:
    """The result of each call follows the call directly; one without a result stays only at the end of the thread."""
    out: list[Fields] = []
    last = max((place for place, message in enumerate(found) if message[names.role] != names.tool), default=0)
    for place, message in enumerate(found):
        if message[names.role] == names.tool:
            continue
        if not any(message.get(key) for key in names.calls):
            out.append(message)
            continue
        behind = _results_behind(found, place, names)
        pending = place == last
        kept, answers = dict(message), list[Fields]()
        for key in names.calls:
            calls = []
            for call in kept.pop(key, ()):
                waiting = behind.get(call["id"])
                if waiting:  # calls of one id get their results in turn
                    answers.append(waiting.pop(0))
                    calls.append(call)
                elif pending:
                    calls.append(call)
            if key in message:
                kept[key] = calls
        if not any(kept.get(key) for key in names.calls):
            if not any(kept.get(key) for key in names.words):
                continue
            kept = {key: value for key, value in kept.items() if key not in names.calls}
        out += [kept, *answers]
    return out


def _results_behind(found: list[Fields], place: int, names: Names) -> dict[str, list[Fields]]:
    """The results up to the next answer, by the ids of their calls."""
    behind: dict[str, list[Fields]] = {}
    for later in map(found.__getitem__, range(place + 1, len(found))):  # a slice would copy the rest of the thread
        if later[names.role] == names.assistant:
            break
        if later[names.role] == names.tool:
            behind.setdefault(later[names.answers], []).append(later)
    return behind
