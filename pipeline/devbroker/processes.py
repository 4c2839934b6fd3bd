"""The Java processes of the development broker: started, found again by their pid files, stopped, never orphaned."""

import base64
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.devbroker.properties import Node
from turnmill.errors import BrokerError

META = "meta.properties"
BOOTSTRAP = "bootstrap.checkpoint"
LOG4J = Path(__file__).with_name("log4j2.properties")
STOP_TIMEOUT = 15.0  # seconds for a clean stop; a broker that waits for a lost quorum is killed then
MAX_ATTEMPTS = 100  # attempts, 10 ms apart, to read the arguments of a process that has none yet
# For processes that start often and rarely run for long.
FAST = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Kafka's classes are not verified, since the jars were checked when downloaded: verification takes a sixth of the CPU
# time of a start. A Java without these options ignores them.
UNVERIFIED = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
# Starts a process that is not our child, so that we needn't reap it, and prints its id. $0 is its log.
START = '"$@" >"$0" 2>&1 </dev/null & echo $!'
# Waits for the end of its input, which comes when the process at the other end dies in any way; then kills its own
# process group. Uses only built-in commands of the shell, since PATH may lack all others.
WATCH = "while read -r _; do :; done; kill -KILL 0"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts nodes.

    `group`: the process group of a watchdog; None for a session that outlives us. `kept`: the file that `keep` writes
    for these jars; None if we did not download them.
    """

    java: Path
    libs: Path
    heap_mb: int
    group: int | None = None
    kept: Path | None = None

    def format(self, nodes: Iterable[Node], cluster_id: str) -> None:
        """Format the data folders of nodes that have none yet. Raises BrokerError with Kafka's message."""
        formats = []
        for node in nodes:
            data = node.folder / "data"
            if not is_formatted(data) and not (self.kept and format_by(self.kept, data, node.id, cluster_id)):
                tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(node.properties)]
                with node.log.open("w") as output:
                    process = subprocess.Popen(  # noqa: S603
                        [*self._command(), *tool],
                        cwd=node.folder,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        process_group=self.group,
                    )
                formats.append((node, process))
        failed = [node for node, process in formats if process.wait() != 0]
        if failed:
            raise BrokerError(f"Kafka could not format its data folder:\n{last_lines(failed[0].log)}")
        if formats and self.kept:
            keep(self.kept, formats[0][0].folder / "data")

    def start(self, node: Node) -> None:
        """Start `node` and write its pid file; it is not ready yet."""
        command = [*self._command(), "kafka.Kafka", str(node.properties)]
        started = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", START, str(node.log), *command],
            cwd=node.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            process_group=self.group,
            start_new_session=self.group is None,
        )
        node.pid_file.write_bytes(started.stdout)

    def _command(self) -> list[str]:
        options = [*FAST, *UNVERIFIED, "-XX:+ExitOnOutOfMemoryError"]
        log = f"-Dlog4j2.configurationFile={LOG4J.as_uri()}"
        return [str(self.java), f"-Xmx{self.heap_mb}m", *options, log, "-cp", f"{self.libs}/*"]


@contextmanager
def watchdog() -> Iterator[int]:
    """Yield a process group that is killed when the block is left, or when this process dies, even by SIGKILL."""
    process = subprocess.Popen(["/bin/sh", "-c", WATCH], stdin=subprocess.PIPE, process_group=0)  # noqa: S603
    try:
        yield process.pid
    finally:
        if process.stdin:
            process.stdin.close()
        process.wait()


def pid_of(node: Node) -> int | None:
    """Return the process id of a running node; None for a stale pid file, even if another process has that id now."""
    try:
        pid = int(node.pid_file.read_text())
    except (OSError, ValueError):
        return None
    return pid if str(node.properties) in _command_line(pid) else None


def _command_line(pid: int) -> str:
    """Return the arguments of a process; empty if it has ended, also if it is not reaped yet."""
    if Path("/proc/self/cmdline").exists():
        return command_line(Path(f"/proc/{pid}"))
    command = ["/bin/ps", "-ww", "-o", "args=", "-p", str(pid)]  # macOS
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def command_line(process: Path) -> str:
    """Return the arguments of a process by its folder in /proc.

    During `exec` a process has no arguments for a moment, so they are read again before it is taken for dead.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            if arguments := (process / "cmdline").read_text(errors="surrogateescape"):
                return arguments
            if (process / "stat").read_text().rpartition(") ")[2][:1] in {"Z", "X"}:
                return ""
        except OSError:
            return ""
        time.sleep(0.01)
    return ""  # a thread of the kernel, which never has any


def kill(nodes: Sequence[Node], how: signal.Signals, within: float) -> list[Node]:
    """Send a signal to the running nodes. Return those that still run `within` seconds later."""
    for node in nodes:
        if (pid := pid_of(node)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
    deadline = time.monotonic() + within
    while (left := [node for node in nodes if pid_of(node) is not None]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def stop(nodes: Sequence[Node]) -> bool:
    """Stop the running nodes, cleanly if possible. Return False if none ran."""
    ran = any(pid_of(node) is not None for node in nodes)
    stubborn = kill(nodes, signal.SIGTERM, STOP_TIMEOUT)
    immortal = kill(stubborn, signal.SIGKILL, STOP_TIMEOUT)
    if immortal:
        raise BrokerError(f"broker process {pid_of(immortal[0])} can't be killed: is it another user's?")
    for node in nodes:
        node.pid_file.unlink(missing_ok=True)
    return ran


def last_lines(log: Path, count: int = 15) -> str:
    """Return the last lines of a log, and its path."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        lines = ["(no log was written)"]
    return "\n".join([*lines, f"The whole log: {log}"])


# Kafka's tool formats a data folder in a second of computing. It writes two files: meta.properties has the ids of the
# cluster, the node and the folder; bootstrap.checkpoint has the levels of the features that a cluster begins with, and
# is the same for all clusters formatted by the same jars. So once the tool has written it, it is kept beside the jars
# that we downloaded, and later folders are formatted without the tool.


def is_formatted(data: Path) -> bool:
    """Return True if this is the data folder of a cluster."""
    return (data / META).exists()


def format_by(kept: Path, data: Path, node: int, cluster: str) -> bool:
    """Format `data` with the bootstrap.checkpoint in `kept`. Return False if there is none."""
    try:
        checkpoint = kept.read_bytes()
    except OSError:
        return False
    data.mkdir(parents=True, exist_ok=True)
    (data / BOOTSTRAP).write_bytes(checkpoint)
    ids = {"version": "1", "cluster.id": cluster, "node.id": str(node), "directory.id": new_id()}
    (data / META).write_text("".join(f"{name}={value}\n" for name, value in ids.items()))
    return True


def keep(kept: Path, data: Path) -> None:
    """Copy the bootstrap.checkpoint that the tool has written from `data` to `kept`. Errors are ignored."""
    draft = kept.with_name(f"{kept.name}.{os.getpid()}")
    with suppress(OSError):
        draft.write_bytes((data / BOOTSTRAP).read_bytes())
        draft.replace(kept)


def new_id() -> str:
    """Return an id as Kafka makes them: 16 bytes in URL-safe base64, not starting with "-", as an option does."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
