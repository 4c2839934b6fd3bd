"""What moved in the SDKs that wires come from: `make drift`.

The newest release of each is installed beside the pinned one, and the recorded programs run with it. What is printed:
the events, finish reasons and fields that it can say and the pinned release can't, and the runs that are not assembled
as the SDK has them. The exit status is 1 if such an event or reason is in no table of its dialect, or a run differs.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.dialects import DIALECTS, ends
from tests.sdks import python_sdks
from tests.sdks.check_recording import SDKS as RECORDERS
from tests.sdks.recordings import assembled, recorded

SDKS: Final = (*RECORDERS, "pydantic-ai-2.68.0")
ENDS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "openai-chat": ends.CHAT,
    "openai-responses": ends.RESPONSES,
    "anthropic": ends.ANTHROPIC,
    "gemini": ends.GEMINI,
}


def moved(pinned: Mapping[str, Any], newest: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield what only the newest release can say, a line each, and whether a table has it or needs none."""
    for kind, singular in (("events", "event"), ("ends", "finish reason"), ("fields", "field")):
        for wire, names in newest[kind].items():
            known = {"events": DIALECTS[wire].handlers, "ends": ENDS.get(wire, {}), "fields": names}[kind]
            for name in sorted(set(names) - set(pinned[kind].get(wire, ()))):
                yield f"{wire}: {singular} {name}" + ("" if name in known else ", which no table has"), name in known


def differing(sdk: str) -> Iterator[str]:
    """Yield the recorded runs of the newest release that are assembled otherwise than it has them."""
    for run_id, (truth, records) in recorded(sdk, RECORDERS[sdk], newest=True).items():
        try:
            assembled(truth, records)
        except AssertionError as error:
            yield f"run {run_id}: {str(error).partition(chr(10))[0]}"


def main() -> int:
    status = 0
    for sdk in SDKS:
        pinned = python_sdks.run(sdk, "sdk_types.py")
        newest = python_sdks.run(sdk, "sdk_types.py", newest=True)
        for package, release in newest["versions"].items():
            print(f"{package} {pinned['versions'].get(package)} -> {release}")  # noqa: T201  # its result
        told = list(moved(pinned, newest))
        told += [(line, False) for line in (differing(sdk) if sdk in RECORDERS else ())]
        for line, is_known in told:
            print(f"  {line}")  # noqa: T201  # its result
            status |= not is_known
    return status


if __name__ == "__main__":
    sys.exit(main())
