"""A file in which an agent's program keeps a session -> the runs in it, line by line. Pure.

A reader takes the lines of one file and yields steps. It decides by the lines so far alone: a file that grows gives the
same steps, and then more of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from topics.json_text import Fields

MAIN: Final = ""
MAX_HELD_LINES: Final = 200  # lines without a run that are kept for the next one


class RunOpened(NamedTuple):
    """A run begins in `chain`, one of the file's conversations. `info` is its `run` object; all ids are public ones."""

    chain: str
    thread: str
    run: str
    agent: str
    info: Fields


class RunEvent(NamedTuple):
    """The next event of the chain's run, at epoch ms. `ends`: the run is over by it, unless it goes on all the same."""

    chain: str
    event: Fields
    at: int
    ends: bool = False


class RunOver(NamedTuple):
    """Nothing more comes of the chain's run."""

    chain: str
    end: str  # as in the envelope


Step = RunOpened | RunEvent | RunOver


class Reader(Protocol):
    """The reader of a file."""

    @property
    def dialect(self) -> str:
        """The wire of its events."""
        ...

    def read(self, line: Fields) -> Iterable[Step]:
        """Return the steps of the next line. Raises KeyError, TypeError or AttributeError where it is malformed."""
        ...


@dataclass(frozen=True, slots=True)
class Homes:
    """The files and threads of the runs that were read: a copy of a run in another file adds nothing to it."""

    of: dict[str, tuple[str, str]] = field(default_factory=dict)  # run -> (file, thread)
    originals: dict[str, str] = field(default_factory=dict)  # a copy of a run, by its own name -> the run

    def claim(self, run: str, file: str, thread: str) -> bool:
        """Return True if the run is this file's: the first file that has it decides, and where it belongs."""
        return self.of.setdefault(run, (file, thread))[0] == file

    def thread(self, run: str) -> str | None:
        """Return the thread of a run; None where no file has it."""
        known = self.of.get(run)
        return None if known is None else known[1]


def texts(content: Any) -> list[str]:
    """Return the texts of a message's content."""
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return [text for text in texts if isinstance(text, str)]
