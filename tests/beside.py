"""Run two commands at once: python -m tests.beside LOG COMMAND… -- COMMAND…

The first writes into LOG, which is shown whole when it has ended, and runs with a lower priority; the second has the
terminal. The status is that of the second if it fails, else that of the first. Ctrl-C and SIGTERM end both.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import FrameType

NICENESS = 5


def run(log: Path, behind: Sequence[str], before: Sequence[str]) -> int:
    """Run both; return the status."""
    signal.signal(signal.SIGTERM, _end)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        # A session of its own: a signal to its group reaches all that it has started, and Ctrl-C comes from us alone.
        command = ["nice", "-n", str(NICENESS), *behind]
        first = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    teller = Thread(target=_tell, args=(first, log), daemon=True)
    teller.start()
    second = subprocess.Popen(before)
    try:
        second.wait()
        teller.join()
    except KeyboardInterrupt:
        second.wait()  # the terminal's Ctrl-C has reached it, too, and it stops its servers
        return 128 + signal.SIGINT
    except SystemExit:
        second.terminate()
        second.wait()
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGTERM)
        first.wait()
    if first.returncode and not second.returncode:
        print(f"failed: {' '.join(behind)} (its output is above, and in {log})", file=sys.stderr)  # noqa: T201
    return second.returncode or first.returncode


def _tell(first: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the first command, and write all that it has said by one call, on lines of its own."""
    if first.wait() >= 0 and (said := log.read_bytes()):
        with suppress(OSError):
            os.write(sys.stdout.fileno(), b"\n" + said)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    log, *rest = sys.argv[1:]
    at = rest.index("--")
    sys.exit(run(Path(log), rest[:at], rest[at + 1 :]))
