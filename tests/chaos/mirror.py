"""A real MirrorMaker 2 between two clusters, with its own names for topics: the source's name before theirs."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pipeline.devbroker.java import java
from pipeline.devbroker.processes import FAST, LOG4J
from pipeline.settings import Settings
from tests.support.places import CACHE
from topics.catalog import CONTROL, EVENTS, FEEDBACK

POM: Final = Path(__file__).parent / "mirror_maker" / "pom.xml"
JARS: Final = CACHE / "mirror-maker"
MIRRORED: Final = (EVENTS, FEEDBACK, CONTROL)  # what workers don't write
FEW: Final = tuple(
    f"{of}replication.factor"
    for of in ("", "offset-syncs.topic.", "offset.storage.", "status.storage.", "config.storage.")
)


def properties(source: Settings, name: str, target: Settings) -> str:
    """-> MirrorMaker's settings: docs/operations/regions.md has the same. `name`: the source's, before the topics'."""
    topics = "|".join(topic.name for topic in MIRRORED)
    lines = {
        "clusters": f"{name}, target",
        f"{name}.bootstrap.servers": source.brokers,
        "target.bootstrap.servers": target.brokers,
        f"{name}->target.enabled": "true",
        f"target->{name}.enabled": "false",
        f"{name}->target.topics": f"{source.topic_prefix.replace('.', '[.]')}[.]({topics})",
        "offset-syncs.topic.location": "target",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "refresh.topics.interval.seconds": "5",
        "offset.flush.interval.ms": "1000",
        "tasks.max": "2",
        **dict.fromkeys(FEW, "1"),
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


class Mirror:
    """MirrorMaker 2 from one cluster to another one; it goes on where it was, since the target has its offsets."""

    def __init__(self, source: Settings, name: str, target: Settings, folder: Path, group: int) -> None:
        """`group`: the process group of a watchdog, which ends it with us."""
        self.group = group
        self.folder = folder
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mirror.properties").write_text(properties(source, name, target))
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        if not JARS.exists():
            fresh = JARS.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
            await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
            fresh.rename(JARS)
        program = await asyncio.to_thread(java)
        command = [str(program), "-Xmx256m", *FAST, f"-Dlog4j2.configurationFile={LOG4J.as_uri()}", "-cp", f"{JARS}/*"]
        command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(self.folder / "mirror.properties")]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: ASYNC220  # short
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=self.group
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
