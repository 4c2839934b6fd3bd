"""Session transcripts of Claude Code (~/.claude/projects/*/SESSION.jsonl) -> runs, whose events are stream-json.

A line is an entry of a tree (`uuid`, `parentUuid`). A run begins with a user's message, and has the uuid of its line;
it continues the run of the parent, so an edit of an earlier prompt is a branch.

| line | what it does |
|---|---|
| `user`, a message of the user | begins a run, unless the model waits for the rest of its results |
| `user`, `assistant`, `system` | an event of the run, its fields named as in stream-json |
| `isSidechain` | a sub-agent: each is a thread of its own, here or in a file of its own (`agent-ID.jsonl`) |
| `forkedFrom`, or a prompt that another file has | a copy, in a forked or resumed session: left out |
| `assistant`, an answer that another file has | the same, but for its usage |
| `ai-title`, `custom-title`, `summary` of a line here | the thread's title |
| `attachment` of type `queued_command`: what the user typed while tools ran | a prompt in the run |
| `progress`, and notes of the program for itself (`mode`, `queue-operation`, `api-request-shape`, …) | nothing |
| any other | an event of the run, kept as SystemMessage data-app-TYPE |
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.dialects.claude_code.lines import ENDING
from pipeline.dialects.transcript import MAIN, MAX_HELD_LINES, Homes, RunEvent, RunOpened, RunOver, Step, texts
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, list_of

NOTES: Final = frozenset(  # lines that repeat others, or control the program: those of Claude Code 2.1.332, and before
    {"progress", "mode", "permission-mode", "last-prompt", "queue-operation", "file-history-snapshot"}
    | {"api-request", "api-request-blob", "api-request-resumed", "api-request-shape"}  # prompts, tools, and hashes
    | {"file-history-delta", "content-replacement", "attribution-snapshot", "cost-state", "tools-used"}
    | {"continued-in", "resume-head-vouch", "fork-context-ref", "derived-from", "frame-link", "observer-ref"}
    | {"agent-color", "agent-setting", "dev-mods", "repl-mode", "memory-mode", "session-owner", "worktree-state"}
    | {"atis-latch", "isolation-latch", "bridge-session", "history-suppression", "relocated", "host-row"}
    | {"data-flow-records", "data-flow-incomplete", "artifact-comment-monitor", "artifact-autoreact-ledger"}
    | {"hybrid-organization"}
)
SPEAKS: Final = frozenset({"user", "assistant"})
RENAMED: Final = {
    "requestId": "request_id",
    "toolUseResult": "tool_use_result",
    "isApiErrorMessage": "is_api_error_message",
    "retractedMessageUuids": "retracted_message_uuids",
    "isCompactSummary": "isSynthetic",
}
LEFT_OUT: Final = frozenset(  # repeated by the tree, the thread and the time of the event
    {"parentUuid", "logicalParentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch"}
    | {"timestamp", "slug", "forkedFrom", "agentId", "sourceToolAssistantUUID", "sourceToolUseID", "entrypoint"}
)
REPEATED: Final = frozenset({"originalFile", "file"})  # of a tool's own result: files, as they are on the disk
# Messages of the program in the user's name begin no run.
NO_PROMPT: Final = (
    *("[Request interrupted by user", "<local-command-", "<bash-stdout>", "<bash-stderr>", "<task-notification>"),
)
METADATA: Final = {"cwd": "cwd", "gitBranch": "git_branch", "version": "claude_code_version"}


@dataclass(slots=True, eq=False)
class Chain:
    """One conversation of a file. `newest`: uuid of its last line; `waits`: that line is a result of a tool.

    `copied`: its run is another file's; `forked`: as `forkedFrom` says.
    """

    name: str
    thread: str | None = None
    run: str | None = None
    first: str | None = None
    copied: bool = False
    forked: bool = False
    newest: object = None
    waits: bool = False
    held: list[Fields] = field(default_factory=list)


class Session:
    """The reader of a file. `agent`: the sub-agent whose file it is; `kind`: its type, from its sidecar file."""

    dialect: Final = "claude-code"

    def __init__(self, file: str, name: str, homes: Homes, agent: str = "", kind: str | None = None) -> None:
        self._file = file
        self._name = name
        self._homes = homes
        self._agent = agent
        self._kind = kind
        self._chains = {MAIN: Chain(MAIN)}
        self._places: dict[str, tuple[str, str | None]] = {}  # uuid -> (chain, run)
        self._at = 0
        self._named = False  # by the user

    def read(self, line: Fields) -> Iterator[Step]:
        """Yield the steps of the next line."""
        kind, uuid = line["type"] + "", line.get("uuid")
        self._at = max(self._at, epoch_ms(line.get("timestamp")) or 0)
        chain = self._chain(line)
        before = self._places.get(str(line.get("parentUuid")), (None, None))[1]
        if kind in NOTES:
            if isinstance(uuid, str):  # later lines may refer to it
                self._places[uuid] = (chain.name, before)
            return
        if self._opens(chain, line, kind):
            yield from self._open(chain, line, before)
        if isinstance(uuid, str):
            self._places[uuid] = (chain.name, chain.run)
        event = self._event(line, kind)
        if kind in SPEAKS:
            chain.newest, chain.waits = uuid, _is_result(line)
        if chain.run is not None and not chain.copied:
            yield RunEvent(chain.name, self._once(event), self._at, _ends(line))
        elif chain.run is None or uuid is None:
            chain.held = [*chain.held, event][-MAX_HELD_LINES:]

    def _chain(self, line: Fields) -> Chain:
        """Return the conversation of a line; a sub-agent's in its session's file begins with a line of its own."""
        if line.get("isSidechain") is not True or self._agent:
            return self._chains[MAIN]
        index = self._places.get(str(line.get("parentUuid")))
        name = str(line.get("agentId") or (index[0] if index else line["uuid"]))
        return self._chains.setdefault(name, Chain(name))

    def _opens(self, chain: Chain, line: Fields, kind: str) -> bool:
        if kind not in SPEAKS or line.get("isMeta") is True or line.get("isCompactSummary") is True:
            return False
        if chain.copied and chain.forked and "forkedFrom" not in line:
            return True
        if kind == "assistant":
            return chain.run is None
        pieces = texts(line["message"]["content"])
        if _is_result(line) or (pieces and pieces[0].lstrip().startswith(NO_PROMPT)):
            return False
        return not (chain.waits and line.get("parentUuid") == chain.newest)

    def _open(self, chain: Chain, line: Fields, before: str | None) -> Iterator[Step]:
        for other in self._chains.values() if chain.name == MAIN else (chain,):
            if other.run is not None and not other.copied:
                yield RunOver(other.name, "complete")
        fork = line.get("forkedFrom")
        run = str(fork["messageUuid"] if isinstance(fork, dict) else line["uuid"])
        if isinstance(fork, dict):  # a fork of a fork names the copy in that
            run = self._homes.originals[str(line["uuid"])] = self._homes.originals.get(run, run)
        if chain.thread is None:
            session = self._name if not (isinstance(fork, dict)) else str(fork["sessionId"])
            name = self._agent or chain.name
            chain.thread = self._homes.thread(run) or (f"{session}/{name}" if name else session)
        last, chain.run = chain.run, run
        chain.copied, chain.forked = not self._homes.claim(run, self._file, chain.thread), isinstance(fork, dict)
        chain.first = chain.first or run
        if chain.copied:
            return
        metadata = {name: line[key] for key, name in METADATA.items() if isinstance(line.get(key), str) and line[key]}
        info: Fields = {"imported": True, "thread": {"metadata": metadata}}
        if before is not None or (line.get("parentUuid") and last):
            info["continues"] = before or last
        elif last is not None:
            info["replaces"] = chain.first  # the very first prompt was edited
        agent = "claude"
        if chain.name or self._agent:
            agent, info["parent_thread_id"] = self._kind or "agent", self._name
            if self._chains[MAIN].run is not None and chain.name:
                info["parent_run_id"] = self._chains[MAIN].run
        info["agent_name"] = "Claude Code" if agent == "claude" else agent
        yield RunOpened(chain.name, chain.thread, run, agent, info)
        yield from (RunEvent(chain.name, event, self._at) for event in chain.held)
        chain.held = []

    def _once(self, event: Fields) -> Fields:
        """Return an event without its usage, if another file has the answer: files of sub-agents copy what was said.

        An answer has the id of its message and of its request; gateways tell no request, and use ids again elsewhere.
        """
        message = event.get("message")
        if event["type"] != "assistant" or not isinstance(message, dict) or "id" not in message:
            return event
        names = [f"{message['id']} {name}" for name in (self._name, event.get("request_id")) if name]
        mine = [self._homes.claim(name, self._file, "") for name in names]
        if all(mine):
            return event
        return {**event, "message": {key: value for key, value in message.items() if key != "usage"}}

    def _event(self, line: Fields, kind: str) -> Fields:
        event = {RENAMED.get(key, key): value for key, value in line.items() if key not in LEFT_OUT}
        if kind == "attachment" and (words := _queued(line)) is not None:
            del event["attachment"]
            return {**event, "type": "user", "message": {"role": "user", "content": words}}
        if kind == "system":
            event.setdefault("subtype", "note")
        if kind == "user" and isinstance(result := event.get("tool_use_result"), dict):
            event["tool_use_result"] = {key: value for key, value in result.items() if key not in REPEATED}
        elif kind == "user":
            event.pop("tool_use_result", None)  # a text or blocks: those of the message itself
        self._named = self._named or kind == "custom-title"
        elsewhere = kind == "summary" and line.get("leafUuid") not in self._places
        if elsewhere or (self._named and kind in ("ai-title", "summary")):
            event["type"] = f"other-{kind}"  # of another session, or an automatic title after the user's own
        return event


def _queued(line: Fields) -> Any:
    """Return the words that the user typed while the agent worked; None for a program's, and for a command."""
    match line.get("attachment"):
        case {"isMeta": True} | {"commandMode": "task-notification" | "bash"}:
            return None
        case {"origin": {"kind": str(kind)}} if kind != "human":
            return None
        case {"type": "queued_command", "prompt": str() | list() as words}:
            return words
    return None


def _is_result(line: Fields) -> bool:
    blocks = list_of(line["message"]["content"])
    return any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _ends(line: Fields) -> bool:
    message = line.get("message")
    return line["type"] == "assistant" and isinstance(message, dict) and message.get("stop_reason") in ENDING
