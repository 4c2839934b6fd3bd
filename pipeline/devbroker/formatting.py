"""Format a broker's data folder without Kafka's tool, which takes a second of computing each time.

The tool writes two files: meta.properties has the ids of the cluster, the node and the folder; bootstrap.checkpoint has
the levels of the features that a cluster begins with. The second file has no ids, and is the same for all clusters
formatted by the same jars. So once the tool has written it, it is kept in the folder of jars that we downloaded.
"""

from __future__ import annotations

import base64
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

META: Final = "meta.properties"
BOOTSTRAP: Final = "bootstrap.checkpoint"


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
