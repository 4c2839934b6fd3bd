"""The pytest plug-in: the fixture `turnmill_mock`, which serves stored or frozen runs during a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pipeline.cli.mock.matching import Tape

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@dataclass(frozen=True)
class Served:
    """A running mock. `url`: its address."""

    url: str
    tape: Tape

    @property
    def unused(self) -> list[str]:
        """The recorded calls that were not made."""
        return [f"a call of {call.dialect}, run {call.run}" for call in self.tape.unused]


@pytest.fixture
def turnmill_mock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Serve fixtures of `turnmill mock --freeze`, or stored threads, to the SDKs of this test.

    `turnmill_mock("weather.json")` sets the addresses of OpenAI, Anthropic and Gemini, and keys, for the test.
    `strict`: parameters must be equal, too. `speed`: factor on the recorded pace.
    """
    with ExitStack() as stack:

        def serve(*names: str, strict: bool = False, speed: float | None = None) -> Served:
            served = stack.enter_context(_serving(tuple(map(str, names)), speed, strict=strict))
            for name, path in {"OPENAI": "/v1", "ANTHROPIC": "", "GOOGLE_GEMINI": ""}.items():
                monkeypatch.setenv(f"{name}_BASE_URL", served.url + path)
            for key in KEYS:
                monkeypatch.setenv(key, "turnmill-mock")
            return served

        yield serve


@contextmanager
def _serving(names: tuple[str, ...], speed: float | None, *, strict: bool) -> Iterator[Served]:
    """Serve from a thread with its own event loop, since the test may block, or have a loop itself."""
    from pipeline.cli.mock.command import load_calls  # noqa: PLC0415  # only users of the fixture load it
    from pipeline.cli.mock.matching import Tape  # noqa: PLC0415  # as above
    from pipeline.cli.mock.serving import Mock  # noqa: PLC0415  # as above
    from turnmill.loop_thread import LoopThread  # noqa: PLC0415  # as above

    loop = LoopThread("turnmill-mock")
    try:
        calls, redaction = load_calls(names)
        tape = Tape(calls, strict, redaction)
        server = Mock(tape, speed).serving()
        url = loop.wait_for(server.__aenter__())
        try:
            yield Served(url, tape)
        finally:
            loop.wait_for(server.__aexit__(None, None, None))
    finally:
        loop.stop()
