"""`llms.txt` (https://llmstxt.org): an index of the documentation for agents, which links to its pages as Markdown."""

import re
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final

SECTION: Final = re.compile(r"^## (.+)$")
ROW: Final = re.compile(r"^\| (.+?) \| (.+) \|$")
LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)[^)]*\)")


def index(title: str, summary: str, listed: str, folder: str) -> str:
    """Return `llms.txt`: the sections and links of a page of tables, `listed`, which lies in `folder` of the site."""
    lines = [f"# {title}", "", f"> {summary}"]
    for line in listed.splitlines():
        if section := SECTION.match(line):
            lines += ["", f"## {section[1]}", ""]
        elif row := ROW.match(line):
            says = LINK.sub(r"\1", row[1])
            links = LINK.findall(row[2])
            lines += [f"- [{name}]({normpath(PurePosixPath(folder, link))}): {says}" for name, link in links]
    return "\n".join(lines) + "\n"


def paths(text: str) -> list[str]:
    """Return the paths that an index links to, within the site."""
    return [path for _, path in LINK.findall(text)]
