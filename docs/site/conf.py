"""The documentation as a site, rendered by Sphinx: `make site` writes it to `dist/site`.

The pages are those that a forge shows, ordered by `index.md`. Beside them are the OpenAPI and AsyncAPI documents, each
with a viewer of its own.
"""

import json
import shutil
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import for_agents  # noqa: E402  # beside this file, which is no package
import viewers  # noqa: E402

from pipeline.gateway.serving.app import create_app  # noqa: E402
from pipeline.settings import Settings  # noqa: E402
from pipeline.worker.host.roles import OPERATIONS  # noqa: E402
from topics.asyncapi import document  # noqa: E402

project = html_title = "Turnmill"
author = "The Turnmill developers"
SUMMARY: Final = (
    "Turnmill turns the streams of AI agents (text deltas, fragments of tool calls, usage, runs that are cut off) into "
    "complete conversations: from Kafka, HTTP, a proxy, captured SDKs or OpenTelemetry, into Postgres or SQLite."
)
project_copyright = "the Turnmill developers. Apache-2.0"
release = installed_version("turnmill")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/**/*.md",
    "examples/*/README.md",
    "helm/turnmill/README.md",
    "results/*.md",
    "tests/corpus/README.md",
]
exclude_patterns = [".*", "dist", "**/node_modules"]
html_theme = "furo"
html_logo = html_favicon = "../../pipeline/gateway/dashboard/static/mark.svg"
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
myst_heading_anchors = 6
# Pages with pages below them in the menu. A forge would show a toctree as code, so it is added here.
BELOW: Final = {
    "docs/dialects": "dialects/*",
    "docs/operations/README": "*",
    "docs/operations/chart": "../../helm/turnmill/README",
    "docs/start/README": "*",
    "docs/control": "../results/stops",
    "docs/performance": "\n".join(f"../results/{name}" for name in ("benchmark", "growing", "reports", "more")),
    "docs/reliability": "\n".join(
        f"../results/{name}" for name in ("proof", "simulation", "chaos", "restarts", "neighbours", "soak")
    ),
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False


def setup(app: Sphinx) -> None:
    """Add the menu's lower levels, and write the documents and their viewers beside the pages."""
    app.connect("source-read", _below)
    app.connect("html-page-context", _levels, priority=900)
    app.connect("build-finished", _reference)
    app.connect("build-finished", _for_agents)


def _below(_app: Sphinx, page: str, source: list[str]) -> None:
    if page in BELOW:
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{BELOW[page]}\n```\n"


def _levels(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Give the menu's captions a level, which headings need, and which the theme leaves out."""
    menu = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = menu.replace('role="heading"', 'role="heading" aria-level="2"')


def _reference(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    folder = Path(app.outdir, "docs", "site")
    viewers.write(folder, ROOT / ".cache" / "site")
    for page in ("http.html", "kafka.html"):
        shutil.copy(Path(__file__).with_name(page), folder)
    (folder / "openapi.json").write_text(json.dumps(create_app(Settings()).openapi()), encoding="utf-8")
    (folder / "asyncapi.json").write_text(
        json.dumps(document(operations=OPERATIONS, version=release)), encoding="utf-8"
    )


def _for_agents(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    text = for_agents.index(project, SUMMARY, listed, "docs")
    Path(app.outdir, "llms.txt").write_text(text, encoding="utf-8")
    for path in for_agents.paths(text):
        page = Path(app.outdir, path)
        page.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, page)
