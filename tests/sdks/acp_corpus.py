"""Writes tests/corpus/wires/acp: what real agents say over the Agent Client Protocol before a scripted provider.

It needs the programs of `cli_corpus.py` in a folder's node_modules, and @agentclientprotocol/codex-acp 2.6.0:
`python -m tests.sdks.acp_corpus FOLDER [AGENT [CASE]]`. A stream has the lines of both sides, as a client's log has
them. The truth is the session that the agent itself keeps; thoughts that it doesn't send are left out.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.sdks.cli_corpus import BIN, CORPUS, PROGRAMS, QUESTION, Fields
from tests.sdks.scripted_models import Server, Step

TOOL: Final = PROGRAMS["opencode"].tool
HIGH: Final = [("say", ["High ", "at noon."])]
SILENT: Final = ("available_commands_update", "config_option_update", "current_mode_update")  # lists of options
CASES: Final[dict[str, dict[str, list[list[list[Step]]]]]] = {
    "opencode": {
        "text": [[[("say", ["Two ", "hares, ", "one fox."])]]],
        "unicode": [[[("say", ["Zwölf é ", "🦊 <b>&amp;</b> ", '"\\n"'])]]],
        "thoughts": [[[("think", "Which port?"), ("say", ["High."])]]],
        "one-call": [[[("say", ["Let me look."]), TOOL("echo Brest")], HIGH]],
        "parallel": [[[TOOL("echo Brest"), TOOL("echo Calais"), TOOL("echo Dover")], HIGH]],
        "rounds": [[[TOOL("echo Brest")], [("say", ["And now."]), TOOL("echo Calais")], HIGH]],
        "failing": [[[TOOL("cat /none/such; exit 3")], HIGH]],
        "missing-file": [[[("call", "read", {"filePath": "/none/such"})], HIGH]],
        "long": [[[TOOL("seq 1 400")], HIGH]],
        "refused": [[[("status", 400)]]],
        "two-prompts": [[[("say", ["High."])], [TOOL("echo Low")], [("say", ["Low at six."])]], []],
    },
    "gemini-cli": {
        "text": [[[("say", ["Two ", "hares, ", "one fox."])]]],
        "unicode": [[[("say", ["Zwölf é ", "🦊 <b>&amp;</b>"])]]],
        "refused": [[[("status", 400)]]],
    },
    "codex": {
        "text": [[[("say", ["Two ", "hares, ", "one fox."])]]],
        "thoughts": [[[("think", "Which port?"), ("say", ["High."])]]],
        "refused": [[[("status", 400)]]],
    },
}
COMMANDS: Final = {"opencode": ["opencode", "acp"], "gemini-cli": ["gemini", "--acp"], "codex": ["codex-acp"]}
PACKAGES: Final = {agent: PROGRAMS[agent].package for agent in ("opencode", "gemini-cli")}
PACKAGES["codex"] = "@agentclientprotocol/codex-acp 2.6.0"


class Client:
    """Speaks to an agent's process; `lines` holds those of both sides."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process, self.lines, self.number = process, list[Fields](), 0

    def ask(self, method: str, params: Fields) -> Fields:
        """Send a request; return its answer, and allow whatever the agent asks for before it."""
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self._send(request)
        self.number += 1
        for line in self._heard():
            if "method" not in line and line.get("id") == request["id"]:
                return line
            if line.get("method") == "session/request_permission":
                option = line["params"]["options"][0]["optionId"]
                outcome = {"outcome": {"outcome": "selected", "optionId": option}}
                self._send({"jsonrpc": "2.0", "id": line["id"], "result": outcome})
        raise EOFError(method)

    def _send(self, line: Fields) -> None:
        assert self.process.stdin is not None
        self.lines.append(line)
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def _heard(self) -> Iterator[Fields]:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            if raw.startswith(b"{"):
                line = json.loads(raw)
                self.lines.append(line)
                yield line


def record(agent: str, prompts: list[list[list[Step]]], folder: Path) -> tuple[bytes, Fields]:
    """Prompt an agent; return the lines of both sides, and what it keeps."""
    program, (home, box) = PROGRAMS[agent], (folder / "home", folder / "box")
    home.mkdir()
    box.mkdir()
    server = Server(prompts[0])
    arguments, extra = program.arguments(server.url, home, "", None)
    command = [str(BIN[COMMANDS[agent][0]]), *COMMANDS[agent][1:]]
    if agent == "codex":
        settings = [arguments[n + 1] for n, part in enumerate(arguments) if part == "-c"]
        told = [part.replace("{", "{ ").replace("}", " }") for part in settings]
        (home / "config.toml").write_text(f'model = "own-x"\nmodel_provider = "own"\n{told[0]}\n')
        extra["CODEX_PATH"] = str(BIN["codex"])
    if agent == "gemini-cli":
        command += ["-m", "gemini-2.5-flash", "--skip-trust"]
    process = subprocess.Popen(
        command,
        cwd=box,
        env={**os.environ, "HOME": str(home), **extra},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    client = Client(process)
    try:
        client.ask("initialize", {"protocolVersion": 1, "clientInfo": {"name": "own", "version": "1"}})
        session = client.ask("session/new", {"cwd": str(box), "mcpServers": []})["result"]["sessionId"]
        for _ in prompts:
            words = [{"type": "text", "text": QUESTION}]
            told = client.ask("session/prompt", {"sessionId": session, "prompt": words})
    finally:
        process.kill()
        process.wait()
        server.shutdown()
    content, _ = program.truth(home, box, [{"sessionID": session, "type": ""}])
    for part in (part for _, parts in content for part in parts):
        if part[:2] == ["tool-call", "bash"]:
            part[3]["cwd"] = str(box)  # opencode tells it over this protocol
        if part[0] == "tool-return" and part[3] == "error":
            part[2] = {"error": part[2]}
        if agent == "codex" and part[0] == "thinking":
            part[1] = f"\n\n{part[1]}"  # codex-acp sets sections of thoughts apart
    if len(prompts) > 1:  # the session's last turn is its last prompt's
        content = [["response", [["text", "High."]]], ["request", [["user-prompt", QUESTION]]], *content]
    complete = told.get("result", {}).get("stopReason") == "end_turn" and "status" not in str(prompts)
    truth = {"sdk": PACKAGES[agent], "how": "before a scripted provider; the session that it keeps itself"}
    truth |= {"complete": complete, "content": content if complete else [], "at_most": None, "tokens": None}
    lines = [_short(line) for line in client.lines if _update(line) not in SILENT]
    output = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return output.replace(str(folder), "/own").encode(), json.loads(json.dumps(truth).replace(str(folder), "/own"))


def _update(line: Fields) -> Any:
    match line:
        case {"params": {"update": {"sessionUpdate": kind}}}:
            return kind
    return None


def _short(line: Fields) -> Fields:
    """Return a line without the lists of models and modes that an agent tells with a session."""
    result = line.get("result")
    if isinstance(result, dict) and "sessionId" in result:
        return {**line, "result": {"sessionId": result["sessionId"]}}
    if isinstance(result, dict) and "agentInfo" in result:
        kept = {key: result[key] for key in ("protocolVersion", "agentInfo", "agentCapabilities") if key in result}
        return {**line, "result": kept}
    return line


def main(folder: Path, agents: list[str], only: str | None) -> None:
    for name in ("opencode", "gemini", "codex", "codex-acp"):
        BIN[name] = next(path for path in folder.glob(f"**/node_modules/.bin/{name}"))
    for agent in agents:
        for name, prompts in CASES[agent].items():
            if only not in (None, name):
                continue
            with tempfile.TemporaryDirectory(prefix="turnmill-", ignore_cleanup_errors=True) as box:
                try:
                    output, truth = record(agent, prompts, Path(box))
                except Exception as error:
                    print(agent, name, "no recording:", repr(error)[:300], flush=True)  # noqa: T201
                    continue
            stream = CORPUS / "acp" / f"{agent}-{name}.jsonl"
            stream.write_bytes(output)
            text = json.dumps(truth, ensure_ascii=False, indent=1)
            stream.with_suffix(".expected.json").write_text(text + "\n", encoding="utf-8")
            print(agent, name, len(output), truth["complete"], flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:3] or list(CASES), sys.argv[3] if len(sys.argv) > 3 else None)
