"""Programs that speak to models over each library, alone and under `turnmill run`: they see the same, byte for byte.

Their broker is away, so that what they publish is read from the spool.
"""

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from tests.support.places import ROOT
from tests.support.scripted_upstream import TEXT, upstream
from tests.support.spools import away, spooled
from tests.support.upstream import chat_answer
from tests.support.waiting import PATIENCE
from tests.support.workers import environment

PROGRAM = ROOT / "tests" / "support" / "speaking_program.py"
RUN = (sys.executable, "-m", "pipeline", "run", "--")
LIBRARIES = ("httpx", "httpx-async", "aiohttp", "requests")
ENDS = {
    "plain": "complete",
    "encoded": "complete",
    "refused": "error",
    "stalled": "disconnected",
    "reset": "disconnected",
    "cut": "disconnected",
    "early": "aborted",
    "unread": "aborted",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with upstream() as found:
        yield found


def captured(home: Path) -> Settings:
    return away(home, capture_hosts="127.0.0.1=test")


def start(settings: Settings, *command: str | Path, **more: str) -> subprocess.Popen[str]:
    variables = {**environment(settings), "PYTHONPATH": str(ROOT), **more}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(process: subprocess.Popen[str], status: int = 0) -> str:
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, errors
    return out


def runs(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """What was published, by the `user` of the request."""
    by_run: dict[str, list[dict[str, Any]]] = {}
    for record in spooled(settings):
        by_run.setdefault(record["run_id"], []).append(record)
    found = {}
    for records in by_run.values():
        events = [event for record in records for event in record["events"]]
        assert events[0]["object"] == "turnmill.request"
        name = events[0]["request"]["user"]
        assert name not in found, "each call is one run"
        found[name] = records
    return found


def check(found: dict[str, list[dict[str, Any]]], seen: dict[str, Any]) -> None:
    assert found.keys() == seen.keys()
    assert "very-secret" not in json.dumps(found)
    for name, records in found.items():
        library, case, _ = name.split()
        end = records[-1]["end"]
        if library == "aiohttp" and case in ("early", "unread") and end == "complete":
            continue  # a small answer is there before the program turns away: we hear what was received
        assert end == ENDS[case], name
        (_, agent), refused = turns(records)
        assert refused == []
        assert (agent["completion_status"] == "complete") == (end == "complete")
        texts = "".join(
            part["content"] for message in agent["messages"] for part in message.get("parts", ()) if "content" in part
        )
        if end == "complete":
            assert texts == "".join(TEXT)
        elif case in ("stalled", "reset", "cut"):
            (error,) = [message for message in agent["messages"] if message["message_type"] == "system"]
            assert error["event_type"] == "error"


def turns(records: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    found, refused = assemble(DIALECTS["openai-chat"], records)
    return [record["turn"] for record in found if record["turn"]], refused


def test_what_programs_see_and_what_is_published(address: str, tmp_path: Path) -> None:
    told = (PROGRAM, address, ",".join(LIBRARIES))
    alone = start(away(tmp_path / "alone"), sys.executable, *told)
    heard = captured(tmp_path / "heard")
    beside = start(heard, *RUN, sys.executable, *told)
    clients = captured(tmp_path / "clients")
    ours = start(clients, sys.executable, PROGRAM, address, "httpx,httpx-async", "client")

    seen = json.loads(output(alone))
    assert json.loads(output(beside)) == seen
    check(runs(heard), seen)
    by_httpx = {name: what for name, what in seen.items() if name.startswith("httpx")}
    assert json.loads(output(ours)) == by_httpx
    check(runs(clients), by_httpx)
    assert not (tmp_path / "alone").exists()


class Server(BaseHTTPRequestHandler):
    """A server that answers each call with JSON."""

    def answer(self, asked: str) -> None:
        raise NotImplementedError

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def say(self, status: int, value: Any, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Repeating(Server):
    """A provider that refuses, and repeats all that it was sent, percent-encoded and not."""

    def answer(self, asked: str) -> None:
        basic = (self.headers["Authorization"] or "").partition("Basic ")[2]
        said = [self.path, unquote(self.path), str(self.headers), asked, b64decode(basic).decode()]
        self.say(401, {"error": said})


REFUSED = """
import asyncio, sys, aiohttp, httpx, requests
tools = [{"type": "mcp", "server_url": "https://mcp/?token=very-secret-1", "authorization": "very-secret-2"}]
url = f"http://me:very-secret-3@{sys.argv[1]}/v1/responses?key=very-secret%2F4&api-key=very-secret-5"
headers = {"x-api-key": "very-secret-6", "api-key": "very-secret-7", "x-goog-api-key": "very-secret-8"}
def asked(library):
    return dict(headers=headers, cookies={"session": "very-secret-9"}, params={"sig": "very-secret-10"},
                json={"model": "m", "user": library, "input": "Weather?", "tools": tools})
async def main():
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.post(url, **asked("aiohttp")) as answer:
            assert "very-secret" in await answer.text()
asyncio.run(main())
assert "very-secret" in requests.post(url, **asked("requests")).text
query = asked("httpx").pop("params")
assert "very-secret" in httpx.post(f"{url}&sig={query['sig']}", **{**asked("httpx"), "params": None}).text
"""


def test_credentials_that_a_provider_repeats(tmp_path: Path) -> None:
    settings = captured(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Repeating) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        output(start(settings, *RUN, sys.executable, "-c", REFUSED, f"127.0.0.1:{server.server_port}"))
        server.shutdown()
    records = list(spooled(settings))
    events = [event for record in records for event in record["events"]]
    assert {event["request"]["user"] for event in events if "request" in event} == {"aiohttp", "httpx", "requests"}
    refusals = [event for event in events if event.get("type") == "turnmill.error"]
    assert [event["status"] for event in refusals] == [401] * 3
    assert all("***" in json.dumps(event["body"]) for event in refusals)
    assert re.findall("very-secret[^ &]*", json.dumps(records)) == []


class Priced(Server):
    """A gateway that tells in a header what the call has cost."""

    def answer(self, asked: str) -> None:
        self.say(200, chat_answer("7 °C"), x_litellm_response_cost="0.0125")


PRICED = """
import asyncio, sys, aiohttp, httpx, requests
url, body = f"http://{sys.argv[1]}/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "?"}]}
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json=body) as answer:
            return await answer.json()
answers = [httpx.post(url, json=body).json(), requests.post(url, json=body).json(), asyncio.run(main())]
assert not any("cost_usd" in answer["usage"] for answer in answers), "the program sees what came"
"""


def test_a_cost_that_a_gateway_tells_in_a_header(tmp_path: Path) -> None:
    settings = captured(tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Priced) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        output(start(settings, *RUN, sys.executable, "-c", PRICED, f"127.0.0.1:{server.server_port}"))
        server.shutdown()
    events = [event for record in spooled(settings) for event in record["events"] if "usage" in event]
    assert [event["usage"]["cost_usd"] for event in events] == [0.0125] * 3


SPEAK = """
import json, sys, httpx
def speak(name):
    body = {"model": "m", "user": name, "messages": [{"role": "user", "content": "Weather?"}]}
    return httpx.post(sys.argv[1] + "/plain/x/v1/chat/completions", json=body).status_code
"""
FORKS = f"""{SPEAK}
import os, multiprocessing, subprocess
assert speak("parent before") == 200
child = os.fork()
if child == 0:
    assert speak("forked") == 200
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
worker = multiprocessing.get_context("fork").Process(target=speak, args=("multiprocessing",))
worker.start(); worker.join()
program = {SPEAK!r} + 'speak("child process")'
subprocess.run([sys.executable, "-c", program, sys.argv[1]], check=True)
assert speak("parent after") == 200
print(*sys.argv[2:], *[folder for folder in sys.path if "capture/site" in folder])
sys.exit(7)
"""


def test_children_and_arguments_and_the_exit_status(address: str, tmp_path: Path) -> None:
    """Forks, children of multiprocessing, other Pythons; a program's own sitecustomize; what it is called with."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.argv0 = 'own'; print('own sitecustomize ran')")
    (tmp_path / "my_agent.py").write_text(FORKS)
    settings = captured(tmp_path / "home")
    path = os.pathsep.join((str(tmp_path), str(tmp_path / "own"), str(ROOT)))
    done = start(settings, *RUN, sys.executable, "-m", "my_agent", address, "--flag", "-x", PYTHONPATH=path)
    lines = output(done, status=7).splitlines()
    # In `turnmill run` itself, in the program, and in its child.
    assert lines == [*["own sitecustomize ran"] * 3, "--flag -x"]
    found = runs(settings)
    names = {"parent before", "forked", "multiprocessing", "child process", "parent after"}
    assert found.keys() == names
    assert {records[-1]["end"] for records in found.values()} == {"complete"}
    assert found["parent before"][0]["agent_id"] == "my_agent"


def test_a_signal_reaches_the_program(tmp_path: Path) -> None:
    handler = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))"
    program = f"{handler}; print('up', flush=True); time.sleep(60)"
    process = start(captured(tmp_path), *RUN, sys.executable, "-c", program)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 9
    process.communicate()


def ended(process: subprocess.Popen[str], by: signal.Signals) -> int:
    """Send a signal to a program that has said that it is up -> its status."""
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(by)
    process.communicate(timeout=PATIENCE)
    return process.returncode


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """They end the programs of a test, also where all tests run under `nohup`, which lets programs ignore them.

    A program ignores what the process ignores that starts it, and has the default of what that one handles.
    """
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])
def test_what_was_said_is_published_before_a_signal_ends_the_program(
    by: signal.Signals, address: str, tmp_path: Path
) -> None:
    """Without a handler of the program's own it dies of the signal, as it does alone."""
    settings = captured(tmp_path)
    unread = "client = httpx.Client(); open = client.send(client.build_request('POST', URL, json=BODY), stream=True)"
    body = "URL, BODY = sys.argv[1] + '/plain/x/v1/chat/completions', {'model': 'm', 'user': 'open', 'messages': []}"
    program = f"{SPEAK}\nspeak('said'); {body}; {unread}; print('up', flush=True); import time; time.sleep(60)"
    assert ended(start(settings, *RUN, sys.executable, "-c", program, address), by) == -by
    found = runs(settings)
    assert {name: records[-1]["end"] for name, records in found.items()} == {"said": "complete", "open": "aborted"}


SERVER = f"""{SPEAK}
import os, signal, uvicorn
async def app(scope, receive, send):
    while (await receive())["type"] != "lifespan.shutdown":
        print("up", flush=True)
        await send({{"type": "lifespan.startup.complete"}})
    speak("at the very end")
    await send({{"type": "lifespan.shutdown.complete"}})
uvicorn.run(app, port=0, log_level="warning")
"""


def test_what_a_server_said_is_published_before_it_ends(address: str, tmp_path: Path) -> None:
    """Uvicorn has handlers of its own, puts those before them back when it has stopped, and sends itself the signal."""
    settings = captured(tmp_path)
    program = start(settings, *RUN, sys.executable, "-c", SERVER, address)
    assert ended(program, signal.SIGTERM) == -signal.SIGTERM
    assert runs(settings)["at the very end"][-1]["end"] == "complete"


def test_a_handler_that_calls_the_one_before_it_finds_none(address: str, tmp_path: Path) -> None:
    settings = captured(tmp_path)
    handler = """
import signal
def handler(*told):
    if callable(before):
        before(*told)
    speak("in the handler")
    sys.exit(9)
before = signal.signal(signal.SIGTERM, handler)
"""
    program = f"{SPEAK}{handler}print('up', flush=True); import time; time.sleep(60)"
    assert ended(start(settings, *RUN, sys.executable, "-c", program, address), signal.SIGTERM) == 9
    assert runs(settings)["in the handler"][-1]["end"] == "complete"


def test_what_is_wrong_is_said_and_the_program_goes_on(address: str, tmp_path: Path) -> None:
    """A command that is not there; settings that are wrong where nobody looks at them before."""
    process = start(captured(tmp_path), *RUN, "no-such-program")
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "no-such-program" in errors) == (2, True)
    program = f"import turnmill.auto\n{SPEAK}\nprint(speak('x'), speak('y'))"
    alone = start(captured(tmp_path), sys.executable, "-c", program, address, TURNMILL_BROKERS="nonsense")
    out, errors = alone.communicate(timeout=PATIENCE)
    assert (alone.returncode, out) == (0, "200 200\n")
    assert errors.count("model calls are not captured") == 1


def test_nothing_is_loaded_for_those_who_do_not_use_it(tmp_path: Path) -> None:
    libraries = "{'httpx', 'httpx2', 'aiohttp', 'requests', 'aiokafka', 'pydantic'}"
    program = f"import sys, turnmill.auto; print(sorted({libraries} & sys.modules.keys()))"
    assert output(start(captured(tmp_path), sys.executable, "-c", program)) == "[]\n"


def test_a_program_that_ends_without_a_broker_ends(address: str, tmp_path: Path) -> None:
    """It waits some seconds at most, and what it has said is on the disk."""
    settings = captured(tmp_path)
    process = start(settings, *RUN, sys.executable, "-c", f"{SPEAK}\nspeak('last words')", address)
    process.communicate(timeout=PATIENCE)
    assert runs(settings)["last words"][-1]["end"] == "complete"


OF_ONES_OWN = """
import os, sys
import LIBRARY as library

def ask(path, body):
    library.Client().post(ADDRESS + path, json=body)

ask("/plain/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}], "user": sys.argv[1]})
ask("/plain/responses", {"form": 7})
ask("/proxy/openai/v1/chat/completions", {"model": "m", "messages": [], "user": "of the proxy"})
if sys.argv[1] == "first":
    os.execv(sys.executable, [sys.executable, __file__, "second"])
"""


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_host_that_nobody_named_is_captured_and_a_line_says_what_was_not(
    library: str, address: str, tmp_path: Path
) -> None:
    program = tmp_path / "own.py"
    program.write_text(OF_ONES_OWN.replace("LIBRARY", library).replace("ADDRESS", repr(address)))
    settings = away(tmp_path)
    process = start(settings, *RUN, sys.executable, program, "first")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert runs(settings).keys() == {"first", "second"}
    [line] = said.splitlines()
    proxied = "1 not captured (published by the gateway's proxy at 127.0.0.1)"
    assert line.startswith(f"turnmill: calls of models: 1 captured; {proxied}; ")
    assert "waiting on disk for the next program here: no Kafka broker answers" in line


def test_a_program_that_asks_no_model_is_told_so(tmp_path: Path) -> None:
    process = start(away(tmp_path), *RUN, sys.executable, "-c", "print('done')")
    assert process.communicate(timeout=PATIENCE)[1].startswith("turnmill: no call of a model was seen: ")
