"""Writes tests/corpus/wires/{codex,gemini-cli,opencode}: what the programs print before a scripted provider.

It needs @openai/codex 0.171.0, @google/gemini-cli 0.61.0 and opencode-ai 1.18.33 in a folder's node_modules:
`python -m tests.sdks.cli_corpus FOLDER [WIRE [CASE]]`. The truth is the session that each program itself keeps: Codex's
rollout, Gemini CLI's chat, opencode's export. What the printed lines can't have is left out of it: thoughts that
aren't printed, texts of answers that broke off.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.sdks.scripted_models import Server, Step

Fields = dict[str, Any]
Messages = list[list[Any]]
CORPUS: Final = Path(__file__).parents[1] / "corpus" / "wires"
QUESTION: Final = "When is high tide?"
SECONDS: Final = 150


@dataclass(frozen=True)
class Program:
    """How a program is called, and what it keeps: `truth` reads the last turn of its session from its home folder."""

    package: str
    tool: Callable[[str], Step]
    broken: Step  # a call that fails
    arguments: Callable[[str, Path, str, str | None], tuple[list[str], dict[str, str]]]
    truth: Callable[[Path, Path, list[Fields]], tuple[Messages, Fields | None]]


def cases(tool: Callable[[str], Step], broken: Step) -> dict[str, list[list[list[Step]]]]:
    """Return the answers of each case, prompt by prompt: the last prompt's lines are recorded."""
    high = [("say", ["High ", "at noon."])]
    return {
        "text": [[[("say", ["Two ", "hares, ", "one fox."])]]],
        "unicode": [[[("say", ["Zwölf é ", "🦊 <b>&amp;</b> ", '"\\n"'])]]],
        "line-separator": [[[("say", ["Zwölf ", "\u2028 é"])]]],
        "thoughts": [[[("think", "Which port? "), ("say", ["High."])]]],
        "one-call": [[[("say", ["Let me look."]), tool("echo Brest")], high]],
        "parallel": [[[tool(f"sleep 1; echo {port}") for port in ("Brest", "Calais", "Dover")], high]],
        "rounds": [[[tool("echo Brest")], [("say", ["And now."]), tool("echo Calais")], [tool("echo Dover")], high]],
        "failing": [[[tool("cat /none/such; exit 3")], high]],
        "tool-error": [[[broken], high]],
        "silent": [[[tool("true")], high]],
        "long": [[[tool("seq 1 400")], [("say", ["So:", *(f" {n} hares." for n in range(120))])]]],
        "output-unicode": [[[tool("printf 'é🦊\\n\\tz'")], high]],
        "refused": [[[("status", 400)]]],
        "overloaded": [[[("status", 503)], [("say", ["High."])]]],
        "cut-once": [[[("say", ["High ", "at"]), "cut"], high]],
        "cut-after-call": [[[tool("echo Brest")], [("say", ["High ", "at"]), "cut"], high]],
        "sigint": [[[("say", ["High ", "at"]), "hang"]]],
        "sigint-after-call": [[[("say", ["Look."]), tool("echo Brest")], [("say", ["High "]), "hang"]]],
        "second-turn": [[[("say", ["High."])], [("say", ["Low at six."])]]],
        "second-turn-call": [[[tool("echo Brest")], high], [[tool("echo Calais")], [("say", ["Low."])]]],
        "length": [[[("say", ["High"]), ("finish", "length")]]],
        "two-texts": [[[("say", ["One. "]), ("think", "Hm."), ("say", ["Two."])]]],
    }


# ---- Codex


def _codex(url: str, home: Path, prompt: str, session: str | None) -> tuple[list[str], dict[str, str]]:
    provider = f'{{name="own",base_url="{url}/v1",wire_api="responses",env_key="OWN_KEY",'
    settings = [f"model_providers.own={provider}request_max_retries=1,stream_max_retries=1}}", "model_provider=own"]
    told = [part for setting in settings for part in ("-c", setting)]
    flags = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "own-x", *told]
    return ["codex", "exec", *flags, *(["resume", session] if session else []), prompt], {
        "CODEX_HOME": str(home),
        "OWN_KEY": "x",
    }


def _codex_truth(home: Path, box: Path, lines: list[Fields]) -> tuple[Messages, Fields | None]:
    (rollout,) = home.glob("sessions/**/*.jsonl")
    kept = list(map(json.loads, rollout.read_bytes().splitlines()))
    begun = [n for n, line in enumerate(kept) if line["payload"].get("type") == "task_started"]
    before, kept = kept[: begun[-1]], kept[begun[-1] :]
    named = {  # the command as it is printed, by its words
        tuple(shlex.split(line["item"]["command"])): (line["item"]["id"], line["item"]["command"])
        for line in lines
        if "command" in line.get("item", {})
    }
    ran: dict[str, Fields] = {
        payload["item"]["id"]: payload["item"]
        for line in kept
        if (payload := line["payload"]).get("type") == "item_completed"
    }
    messages: Messages = []
    for payload in (line["payload"] for line in kept if line["type"] == "response_item"):
        match payload:
            case {"type": "message", "role": "assistant", "content": content}:
                _add(messages, "response", ["text", "".join(piece["text"] for piece in content)])
            case {"type": "reasoning", "summary": summary}:
                _add(messages, "response", ["thinking", "\n\n".join(piece["text"] for piece in summary)])
            case {"type": "function_call", "call_id": call_id} if call_id in ran:
                item_id, command = named[tuple(ran[call_id]["command"])]
                _add(messages, "response", ["tool-call", "command_execution", item_id, {"command": command}])
            case {"type": "function_call_output", "call_id": call_id} if call_id in ran:
                told = ran[call_id]
                state = "success" if told["exit_code"] == 0 else "error"
                item_id, _ = named[tuple(told["command"])]
                _add(messages, "request", ["tool-return", item_id, told["aggregated_output"], state])
    for _, parts in messages:  # calls are printed in the order in which they began
        calls = iter(sorted((part for part in parts if part[0] == "tool-call"), key=lambda part: int(part[2][5:])))
        parts[:] = [next(calls) if part[0] == "tool-call" else part for part in parts]
    sums = [_codex_sum(part) for part in (before, [*before, *kept])]
    return messages, {key: sums[1][key] - sums[0][key] for key in sums[1]} if sums[1] else None


def _codex_sum(kept: list[Fields]) -> Fields:
    counted = [line["payload"].get("info") for line in kept if line["payload"].get("type") == "token_count"]
    sums = [info["total_token_usage"] for info in counted if info]
    last = sums[-1] if sums else {"input_tokens": 0, "output_tokens": 0}
    return {"input": last["input_tokens"], "output": last["output_tokens"]}


# ---- Gemini CLI


def _gemini(url: str, home: Path, prompt: str, session: str | None) -> tuple[list[str], dict[str, str]]:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet}))
    again = ["--resume", "latest"] if session else []
    flags = ["-m", "gemini-2.5-flash", "--output-format", "stream-json", "--yolo", "--skip-trust", *again]
    return ["gemini", "-p", prompt, *flags], {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url}


def _gemini_truth(home: Path, box: Path, lines: list[Fields]) -> tuple[Messages, Fields | None]:
    said: dict[str, Fields] = {}
    for chat in home.glob(".gemini/tmp/*/chats/*.jsonl"):
        for line in map(json.loads, chat.read_bytes().splitlines()):
            for message in [line, *line.get("$set", {}).get("messages", [])]:
                if message.get("type") in ("user", "gemini"):
                    said.pop(message["id"], None)
                    said[message["id"]] = message
    prompts = [name for name, message in said.items() if message["type"] == "user" and _is_prompt(message)]
    after = list(said)[list(said).index(prompts[-1]) + 1 :]
    results = {line["tool_id"]: line for line in lines if line["type"] == "tool_result"}
    messages: Messages = []
    tokens = {"input": 0, "output": 0}
    for message in (said[name] for name in after if said[name]["type"] == "gemini"):
        if message.get("content"):
            _add(messages, "response", ["text", message["content"]])
        for call in message.get("toolCalls", ()):
            _add(messages, "response", ["tool-call", call["name"], call["id"], call["args"]])
        for call in message.get("toolCalls", ()):
            result = results[call["id"]]
            told = json.dumps(call["result"], ensure_ascii=False)
            text = result["error"] if result["status"] == "error" else result["output"]
            assert isinstance(text, dict) or json.dumps(text, ensure_ascii=False)[1:-1] in told
            state = "success" if result["status"] == "success" else "error"
            _add(messages, "request", ["tool-return", call["id"], text, state])
        used = message.get("tokens") or {}
        tokens["input"] += used.get("input", 0)
        tokens["output"] += used.get("output", 0) + used.get("thoughts", 0)
    return messages, tokens


def _is_prompt(message: Fields) -> bool:
    content = message["content"]
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return any(texts) and "<session_context>" not in texts[0]


# ---- opencode


def _opencode(url: str, home: Path, prompt: str, session: str | None) -> tuple[list[str], dict[str, str]]:
    model = {"name": "own", "reasoning": True, "tool_call": True, "limit": {"context": 100_000, "output": 8_000}}
    own = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "x"}}
    provider = {"own": {**own, "models": {"own": {**model, "cost": {"input": 1, "output": 2}}}}}
    config = {"model": "own/own", "small_model": "own/own", "permission": {"*": "allow"}, "provider": provider}
    homes = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
    again = ["--session", session] if session else []
    return ["opencode", "run", "--format", "json", "--thinking", "-m", "own/own", *again, prompt], {
        **homes,
        "OPENCODE_CONFIG_CONTENT": json.dumps({**config, "autoupdate": False}),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


def _opencode_truth(home: Path, box: Path, lines: list[Fields]) -> tuple[Messages, Fields | None]:
    name = lines[-1]["sessionID"]
    _, env = _opencode("http://127.0.0.1:9", home, "", None)
    told = subprocess.run(
        [str(BIN["opencode"]), "export", name],
        cwd=box,
        env={**os.environ, "HOME": str(home), **env},
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )
    kept = json.loads(told.stdout)["messages"]
    prompts = [n for n, message in enumerate(kept) if message["info"]["role"] == "user"]
    messages: Messages = []
    tokens = {"input": 0, "output": 0}
    for message in kept[prompts[-1] + 1 :]:
        for part in message["parts"]:
            match part:
                case {"type": "text", "text": text, "time": {"end": _}}:
                    _add(messages, "response", ["text", text])
                case {"type": "reasoning", "text": text, "time": {"end": _}}:
                    _add(messages, "response", ["thinking", text])
                case {"type": "tool", "callID": call_id, "tool": tool, "state": state}:
                    _add(messages, "response", ["tool-call", tool, call_id, state["input"]])
                case {"type": "step-finish", "tokens": used}:
                    tokens["input"] += used["input"] + used["cache"]["read"] + used["cache"]["write"]
                    tokens["output"] += used["output"] + used["reasoning"]
        for part in message["parts"]:
            match part:
                case {"type": "tool", "callID": call_id, "state": {"status": "completed", "output": output}}:
                    _add(messages, "request", ["tool-return", call_id, output, "success"])
                case {"type": "tool", "callID": call_id, "state": {"status": "error", "error": error}}:
                    _add(messages, "request", ["tool-return", call_id, error, "error"])
    return messages, tokens


def _add(messages: Messages, kind: str, part: list[Any]) -> None:
    if messages and messages[-1][0] == kind:
        messages[-1][1].append(part)
    else:
        messages.append([kind, [part]])


PROGRAMS: Final = {
    "codex": Program(
        "@openai/codex 0.171.0",
        lambda command: ("call", "exec_command", {"cmd": command}),
        ("call", "exec_command", {"cmd": "exit 3"}),
        _codex,
        _codex_truth,
    ),
    "gemini-cli": Program(
        "@google/gemini-cli 0.61.0",
        lambda command: ("call", "run_shell_command", {"command": command, "description": "say"}),
        ("call", "read_file", {"file_path": "none.txt"}),
        _gemini,
        _gemini_truth,
    ),
    "opencode": Program(
        "opencode-ai 1.18.33",
        lambda command: ("call", "bash", {"command": command, "description": "say"}),
        ("call", "read", {"filePath": "/none/such"}),
        _opencode,
        _opencode_truth,
    ),
}
BIN: dict[str, Path] = {}
GOOD: Final[dict[str, Callable[[Fields], bool]]] = {
    "codex": lambda line: line["type"] == "turn.completed",
    "gemini-cli": lambda line: line["type"] == "result" and line["status"] == "success",
    "opencode": lambda line: line["type"] == "step_finish" and line["part"]["reason"] != "tool-calls",
}


def record(wire: str, prompts: list[list[list[Step]]], folder: Path) -> tuple[bytes, Fields]:
    """Run a program for each prompt; return what it printed for the last, and what it keeps of it."""
    program = PROGRAMS[wire]
    home, box = folder / "home", folder / "box"
    home.mkdir(parents=True)
    box.mkdir()
    session: str | None = None
    output = b""
    for answers in prompts:
        server = Server(answers)
        arguments, extra = program.arguments(server.url, home, QUESTION, session)
        env = {**os.environ, "HOME": str(home), **extra}
        process = subprocess.Popen(
            [str(BIN[arguments[0]]), *arguments[1:]],
            cwd=box,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if "hang" in answers[-1]:
            server.hung.wait(SECONDS)
            process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        server.shutdown()
        lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
        named = [line.get("thread_id") or line.get("session_id") or line.get("sessionID") for line in lines]
        session = next(filter(None, named), None)
    content, tokens = program.truth(home, box, lines)
    complete = any(map(GOOD[wire], lines[-2:]))
    if not complete and content and content[-1][0] == "response":
        content.pop()  # what broke off is kept beside the conversation
    truth: Fields = {"sdk": program.package, "how": "before a scripted provider; the session that it keeps itself"}
    truth |= {"complete": complete, "content": content, "at_most": None, "tokens": tokens if complete else None}
    return output.replace(str(folder).encode(), b"/own"), json.loads(json.dumps(truth).replace(str(folder), "/own"))


def main(folder: Path, wires: Iterable[str], only: str | None) -> None:
    for name in ("codex", "gemini", "opencode"):
        BIN[name] = next(path for path in folder.glob(f"**/node_modules/.bin/{name}"))
    for wire in wires:
        for name, prompts in cases(PROGRAMS[wire].tool, PROGRAMS[wire].broken).items():
            if only not in (None, name):
                continue
            with tempfile.TemporaryDirectory(prefix="turnmill-") as box:
                try:
                    output, truth = record(wire, prompts, Path(box))
                except Exception as error:
                    print(wire, name, "no recording:", repr(error)[:300], flush=True)  # noqa: T201
                    continue
            stream = CORPUS / wire / f"{name}.jsonl"
            stream.write_bytes(output)
            text = json.dumps(truth, ensure_ascii=False, indent=1)
            stream.with_suffix(".expected.json").write_text(text + "\n", encoding="utf-8")
            print(wire, name, len(output), truth["complete"], flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:3] or list(PROGRAMS), sys.argv[3] if len(sys.argv) > 3 else None)
