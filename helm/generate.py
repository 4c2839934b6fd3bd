"""Write the files of the chart that come from the code: `python -m helm.generate`; `--check` only compares."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from helm.pipeline_dashboard import pipeline
from helm.schema import values_schema
from helm.usage_dashboard import usage
from pipeline.worker.host.roles import ROLES
from topics.catalog import CATALOG

DASHBOARDS: Final = {"usage": usage, "pipeline": pipeline}
CHART: Final = Path(__file__).parent / "turnmill"


def files() -> dict[Path, str]:
    """Return the text of each generated file, by its path in the chart."""
    topics = [{"name": topic.name, "config": topic.config()} for topic in CATALOG]
    roles = {role.name: role.topic.name for role in ROLES.values()}
    return {
        CHART / "values.schema.json": _json(values_schema()),
        CHART / "files" / "topics.json": _json(topics),
        CHART / "files" / "roles.json": _json(roles),
        **{CHART / "files" / "dashboards" / f"{name}.json": _json(make()) for name, make in DASHBOARDS.items()},
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the files, or only compare them. Return the exit status."""
    check = "--check" in sys.argv[1:]
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files()[path], encoding="utf-8")
        print(f"{path.name}: {'does not match the code; run `make chart`' if check else 'written'}")  # noqa: T201
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
