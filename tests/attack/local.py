"""Attacks by others on an agent's machine: pages in its browser, its other users, and files of no bytes or no end."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.rerunning import answered
from tests.attack.stage import Stage
from tests.support.gateways import client
from tests.support.sessions import Claude
from tests.support.upstream import chat_answer
from tests.support.waiting import until

CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
FOREIGN: Final[tuple[dict[str, str], ...]] = (  # as a browser sends them once a name leads to this machine
    {"Host": "evil.example"},
    {"Host": "evil.example:8765"},
    {"Host": "127.0.0.1.evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
)
WITHIN: Final = 60.0  # seconds of an import of two sessions
# What stands in for Codex: it says that it has begun, and waits.
CODEX: Final = '#!/bin/sh\necho "$TURNMILL_RUN_TOKEN"\nsleep 60\n'


async def rebound(stage: Stage) -> None:
    """A page whose name leads to this machine asks the mock for what was recorded."""
    thread = await answered(stage, "openai-chat", "openai", chat_answer("It is sunny."))
    async with stage.beside("mock", thread, "--port", "0", "--tenant", "evil") as mock:

        async def listening() -> str:
            assert mock.process.poll() is None, mock.text()
            words = mock.text().split()
            return next((word.rstrip("/") for word in words if word.startswith("http://127.0.0.1:")), "")

        url = (await until(listening, mock.text)).removesuffix("/v1")
        async with client(url) as http:
            for headers in FOREIGN:
                answer = await http.post("/v1/chat/completions", json=CHAT, headers=headers)
                assert answer.status_code == 403, f"a page with {headers} is answered {answer.status_code}"
                assert "sunny" not in answer.text
                assert "access-control-allow-origin" not in answer.headers
            assert "sunny" in (await http.post("/v1/chat/completions", json=CHAT)).text


async def command_lines(stage: Stage) -> None:
    """Whoever may list processes: what `turnmill run` tells Codex has no token in its arguments."""
    folder = Path(stage.settings.home) / "programs"
    folder.mkdir(exist_ok=True)
    (folder / "codex").write_text(CODEX)
    (folder / "codex").chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "CODEX_HOME": str(folder), "OPENAI_API_KEY": "sk-x"}
    async with stage.beside("run", "--", "codex", "exec", "hello", variables=path) as program:

        async def begun() -> str:
            assert program.process.poll() is None, program.text()
            return program.text().strip()

        token = (await until(begun, program.text)).split()[-1]
        lines = [read(file) for file in Path("/proc").glob("[0-9]*/cmdline")]
        ours = [line for line in lines if f"{folder}/codex" in line]
        assert any("base_url" in line for line in ours), "Codex is told nowhere to go"
        assert not any(token in line for line in lines), "any user of the machine reads the token of the proxy"


def read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").replace("\0", " ")
    except OSError:  # it has ended
        return ""


async def pipes(stage: Stage) -> None:
    """Where a session's file is expected there are pipes that nobody writes to, and links to endless files."""
    home = Path(stage.settings.home) / "sessions-of-claude"
    claude = Claude("beside-a-pipe")
    claude.ask("Bake bread")
    claude.say("Baked.")
    folder = claude.write(home).parent
    os.mkfifo(folder / "00000000-0000-4000-8000-000000000000.jsonl")
    (folder / "00000000-0000-4000-8000-000000000001.jsonl").symlink_to("/dev/zero")
    (folder / "00000000-0000-4000-8000-000000000002.jsonl").symlink_to(folder)
    arguments = ("import", "--from", "claude-code", "--print")
    where: dict[str, Any] = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home)}
    async with stage.beside(*arguments, variables=where) as program:
        try:
            async with asyncio.timeout(WITHIN):
                while program.process.poll() is None:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError("the import hangs") from None
        threads = [json.loads(line) for line in program.text().splitlines() if line.startswith("{")]
        assert (program.process.poll(), len(threads)) == (0, 1), program.text()[-1000:]


ATTACKS: Final = (
    Attack("mock: rebound", "pages whose names lead to this machine", "read what was recorded", rebound),
    Attack("command lines", "list the processes of the machine", "use the proxy of a program", command_lines),
    Attack("pipes", "a pipe and an endless file among the sessions", "hang an import", pipes),
)
