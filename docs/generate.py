"""Write the tables and install commands of the documentation, and the schemas: `make docs`; `--check` compares.

A page says where a table stands: `<!-- generated: NAME -->`, the table, `<!-- end -->`.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import grimp

from docs import measured, places
from docs.schemas import texts
from docs.unread import UNREAD
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.run_states import TRANSITIONS, State
from pipeline.dialects import DIALECTS, package_of
from pipeline.dialects.shared_hash import CARRIERS
from pipeline.extras import EXTRAS
from pipeline.gateway.problems import KINDS
from pipeline.gateway.serving.app import create_app
from pipeline.observability import metrics
from pipeline.policies import prices
from pipeline.policies.pools import POOLS
from pipeline.settings import Settings, table
from pipeline.turns.tokens import COST_SPELLINGS, SPELLINGS
from pipeline.worker.host.roles import ROLES, Role
from topics.catalog import CATALOG
from turnmill import limits
from turnmill.command_line import COMMANDS
from turnmill.credentials import variable
from turnmill.extras import CLIENT
from turnmill.pools import LEFT_FREE

DOCS: Final = Path(__file__).parent
BOUNDING: Final = (  # settings that bound what `turnmill.limits` does
    "assembly_bytes",
    "content_threshold",
    "fetch_records",
    "gateway_body_bytes",
    "gateway_caller_requests",
    "gateway_connections",
    "gateway_header_bytes",
    "gateway_live_bytes",
    "gateway_rate",
    "gateway_response_bytes",
    "max_record_bytes",
    "metric_series",
    "run_bytes",
    "spool_bytes",
    "window_bytes",
    "window_events",
)
PRODUCT: Final = ("turnmill", "topics", "pipeline")
SCHEMAS: Final = DOCS.parent / "topics" / "schemas"
BLOCK: Final = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
AT_A_GLANCE: Final = (
    "SDK",
    "ends with",
    "whole answers",
    "request",
    "tokens",
    "sub-agents",
)  # of the page of each wire
GLANCE: Final = re.compile(r"^\| at a glance \| \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
# The first release sets this, and `make docs` rewrites every command that installs Turnmill. Until then the name on a
# registry is nobody's, and could be a stranger's package.
RELEASED: Final = False
SOURCE: Final = "turnmill" if RELEASED else "./turnmill"
SERVER: Final = "./turnmill/pipeline"  # what the extras bring; uv finds it in a checkout by itself, pip is told
INSTALL: Final = re.compile(
    r"((?:pip install|pipx install|uv add|uv tool install|uvx --from) +)'?(?:\./)?turnmill(\[[a-z,]+\])?'?(?![\w/.-])"
    rf"(?: {re.escape(SERVER)})?"
)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """-> a table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def settings_table() -> str:
    """Every TURNMILL_* variable."""
    rows = table(Settings())
    return markdown(
        ("variable", "default", "meaning"),
        ((f"`{name}`", f"`{default}`" if default else "", meaning) for name, _, default, meaning in rows),
    )


def limits_table() -> str:
    """Every constant of `turnmill.limits`, with the sentence behind it, and the options that bound the same."""
    body = ast.parse(Path(limits.__file__).read_text(encoding="utf-8")).body
    rows = []
    for constant, sentence in pairwise(body):
        match constant, sentence:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                value = getattr(limits, name)
                rows.append((f"`{name}`", f"{value:,}", " ".join(text.split())))
    options = {name: (default, meaning) for name, _, default, meaning in table(Settings())}
    for name in BOUNDING:
        default, meaning = options[variable(name)]
        rows.append((f"`{variable(name)}`", f"{float(default):,.0f}", meaning))
    return markdown(("limit", "value", "reason"), rows)


def metrics_table() -> str:
    """Every metric of a worker."""
    rows = metrics.table()
    return markdown(
        ("metric", "kind", "labels", "meaning"),
        ((f"`{name}`", kind, labels, meaning) for name, kind, labels, meaning in rows),
    )


def counts_table() -> str:
    """Every count of usage: those that include it, its rate in own prices, and how SDKs and providers spell it."""
    rates = {
        count: f"`{kind}`" + (f", else `{default}`" if default else "")
        for kind, (count, default) in prices.KINDS.items()
    }
    rates |= {count: f"`{kind}`, for each" for kind, count in prices.CALLS.items()}

    def listed(names: Iterable[str]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    rows = []
    for name, spellings in SPELLINGS.items():
        others = (spelling for spelling in spellings if spelling != name)
        rows.append((f"`{name}`", listed(prices.INCLUDED_IN.get(name, ())), rates.get(name, ""), listed(others)))
    cost = ("a told cost", "", "", f"{listed(COST_SPELLINGS)}, `cost_in_usd_ticks`")
    return markdown(("count", "part of", "rate in own prices", "also spelled"), [*rows, cost])


def topics_table() -> str:
    """Every topic, under the default prefix."""
    return markdown(
        ("topic", "key", "value", "cleanup", "kept for", "holds"),
        (
            (
                f"`{topic.full_name('turnmill')}`",
                topic.key,
                topic.value,
                topic.cleanup,
                f"{topic.retention_ms // 86_400_000} days",
                topic.summary,
            )
            for topic in CATALOG
        ),
    )


def topics_of(role: Role, action: str) -> list[str]:
    """Return the topics that a role receives from, or sends to."""
    return [*dict.fromkeys(operation.topic.name for operation in role.operations if operation.action == action)]


def roles_table() -> str:
    """Every role of the worker, under the default prefix."""
    rows = []
    for role in ROLES.values():
        needs = ["the store"] * role.needs_store
        needs += [f"`TURNMILL_{role.needs_setting.upper()}`"] if role.needs_setting is not None else []
        rows.append(
            (f"`{role.name}`", role.does, role.topic.name, ", ".join(topics_of(role, "send")), ", ".join(needs))
        )
    return markdown(("role", "does", "reads", "writes", "needs"), rows)


def rights_table() -> str:
    """Return what each role of the worker must be allowed on the brokers, under the default prefix."""
    rows = []
    for role in ROLES.values():
        read, write = (", ".join(f"`{name}`" for name in topics_of(role, action)) for action in ("receive", "send"))
        rows.append((f"`{role.name}`", read, write, f"`{role.group(Settings())}`"))
    return markdown(("role of the worker", "Read on the topics", "Write on the topics", "Read on the group"), rows)


def places_table() -> str:
    """Return the rows of every place that can hold what somebody said, or who."""
    checked = {True: "counted by `tenants check`", False: "not by itself"}
    rows = [
        [
            f"table `{one.table}`",
            ", ".join((*one.holds,)) or "numbers",
            one.erased,
            checked[one.left is not None],
            one.stays,
        ]
        for one in places.TABLES
    ]
    for same, topics in groupby(places.TOPICS, key=lambda topic: [topic.erased, topic.checked, topic.stays]):
        rows.append([f"topics {', '.join(f'`{topic.name}`' for topic in topics)}", "records", *same])
    rows += [[one.name, "", one.erased, one.checked, one.stays] for one in places.OTHERS]
    return markdown(["place", "holds", "how it is erased", "how that is checked", "what stays, how long"], rows)


def extras_table() -> str:
    """Every extra of the package: what for, with which others, and the commands that need it."""
    rows = [("", "the client", "", _commands_of(CLIENT))]
    for name, extra in EXTRAS.items():
        included = ", ".join(f"`{other}`" for other in extra.includes)
        rows.append((f"`{name}`", extra.use, included, _commands_of(name)))
    return markdown(("extra", "for", "includes", "commands that need it"), rows)


def _commands_of(extra: str) -> str:
    return ", ".join(f"`{name}`" for name, entry in COMMANDS.items() if entry.extra == extra)


def events_table(dialect: Dialect) -> str:
    """Return what a dialect does with each event: the table in the docstring of its module."""
    return "".join(
        f"{line}\n" for line in docstring(f"{package_of(dialect.name)}.events").splitlines() if line[:1] == "|"
    )


def docstring(module: str) -> str:
    """Return the docstring in the source of a module: where it is compiled, it has none."""
    path = DOCS.parent / f"{module.replace('.', '/')}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def wires_table() -> str:
    """Every wire: what its page says at a glance, and what the code knows of it."""
    rows = []
    for name, dialect in DIALECTS.items():
        page = DOCS / "dialects" / f"{name}.md"
        glance = GLANCE.search(page.read_text(encoding="utf-8")) if page.exists() else None
        told = dict(line.strip("| ").split(" | ", 1) for line in glance[1].splitlines()) if glance is not None else {}
        formats = ", ".join(f"`{form.name}`" for form in dialect.formats if not form.is_document)
        live = "as its own client reads it" if dialect.resume is not None else ""
        rows.append((f"[`{name}`](dialects/{name}.md)", *(told.get(label, "") for label in AT_A_GLANCE), formats, live))
    return markdown(("wire", *AT_A_GLANCE, "formats", "live"), rows)


def unread_table() -> str:
    """Every field of recorded events that no dialect reads, and why."""

    def listed(patterns: str) -> str:
        return ", ".join(
            "any" if one == "*" else "without a type" if one == "-" else f"`{one}`" for one in patterns.split()
        )

    return markdown(
        ("wire", "fields", "of events", "why"),
        (
            (f"`{wire}`", listed(row.fields), listed(row.events), row.reason)
            for wire, rows in UNREAD.items()
            for row in rows
        ),
    )


def shared_hash_table() -> str:
    """Return the parts that the shared hash leaves out for each wire."""
    rows = []
    for carrier in CARRIERS.values():
        below = [(f"all that `{carrier.over}` lacks", "")] if carrier.over is not None else []
        lacking = [*below, *((loss.what, loss.becomes) for loss in carrier.losses)] or [("nothing", "")]
        rows += [("" if number else f"`{carrier.name}`", *row) for number, row in enumerate(lacking)]
    return markdown(("wire", "lacks", "in its place"), rows)


def endpoints_table() -> str:
    """Every operation of the gateway, as its OpenAPI document has them."""
    rows = []
    for path, methods in create_app(Settings()).openapi()["paths"].items():
        for method, operation in methods.items():
            scopes = " or ".join(", ".join(needs["token"]) for needs in operation.get("security", ()))
            rows.append((f"`{method.upper()} {path}`", scopes or "none", operation["summary"]))
    return markdown(("endpoint", "scope", ""), rows)


def problems_table() -> str:
    """Every kind of error that the gateway answers with."""
    return markdown(
        ("type", "status", "means", "what to do"),
        ((f"`/docs#{name}`", str(kind.status), kind.title, kind.advice) for name, kind in KINDS.items()),
    )


def floors() -> list[list[str]]:
    """Return the packages on each floor of the import contract in pyproject.toml, from the top down."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in contracts["contracts"] if contract["type"] == "layers")
    named = [[name.strip() for name in layer.split("|")] for layer in layers]
    return [found for floor in named if (found := [name for name in floor if _is_package(name)])]


def packages_table() -> str:
    """Every package with its floor, counted from the bottom, and the packages that import it."""
    names = [name for floor in floors() for name in floor]
    users: dict[str, set[str]] = {name: set() for name in names}
    graph = grimp.build_graph(*{name.partition(".")[0] for name in names})
    for module in graph.modules:
        user = _package_of(module, names)
        for imported in graph.find_modules_directly_imported_by(module):
            used = _package_of(imported, names)
            if used and user and used != user:
                users[used].add(user)
    rows = []
    for number, floor in zip(range(len(floors()), 0, -1), floors(), strict=True):
        rows += [(str(number), f"`{name}`", ", ".join(f"`{n}`" for n in names if n in users[name])) for name in floor]
    return markdown(("floor", "package", "imported by"), rows)


def _is_package(name: str) -> bool:
    return (DOCS.parent.joinpath(*name.split(".")) / "__init__.py").exists()


def _package_of(module: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if module == name or module.startswith(f"{name}.")), None)


def run_states_table() -> str:
    """Every state of a run, and where each event takes it; states from which it leads to the same one share a row."""
    states = markdown(("state", "meaning"), ((f"**{state.name.lower()}**", state) for state in State))
    origins: dict[tuple[str, State], list[str]] = {}
    for (start, event), end in TRANSITIONS.items():
        origins.setdefault((event, end), []).append(f"**{start.name.lower()}**")
    rows = []
    for names, moves in groupby(origins.items(), key=lambda move: ", ".join(move[1])):
        for number, ((event, end), _) in enumerate(moves):
            rows.append(("" if number else names, event, f"**{end.name.lower()}**"))
    return states + "\n" + markdown(("from", "when", "to"), rows)


BY_NAME: Final = """\
```sh
uvx --from 'turnmill[demo]' turnmill demo
pip install 'turnmill[demo]' && turnmill demo
```
"""
FROM_A_CHECKOUT: Final = f"""\
Turnmill is on no package registry yet: install it from a checkout, as here in the folder that holds the checkout
`turnmill`, or from the wheels that `make wheel` puts into `dist/`. After the first release, `turnmill` replaces
`./turnmill` in these commands, and `{SERVER}` goes.

```sh
uvx --from './turnmill[demo]' turnmill demo
pip install './turnmill[demo]' {SERVER} && turnmill demo
```
"""


def pools_table() -> str:
    """Every pool that tenants share."""
    header = ("pool", "of a", "size", "share of a tenant", "a tenant that has its share")
    sizes = ((one, f"{one.size:,} {one.unit}") for one in POOLS)
    return markdown(
        header,
        ((one.name, one.process, size, "" if one.share == LEFT_FREE else one.share, one.full) for one, size in sizes),
    )


def rooms_table() -> str:
    """Every folder of the product's code, with the sentences of its `__init__`; the wires in one row."""
    inits = (path for top in PRODUCT for path in sorted((DOCS.parent / top).rglob("__init__.py")))
    rooms = ((path.parent.relative_to(DOCS.parent), ast.get_docstring(ast.parse(path.read_text()))) for path in inits)
    return markdown(
        ("folder", "what belongs there"),
        (
            (f"`{folder}/`", " ".join((text or "").partition("\n\n")[0].split()))
            for folder, text in rooms
            if folder.parent.name != "dialects"
        ),
    )


def install_note() -> str:
    """Return the commands that install the demo, and before the first release where from."""
    return BY_NAME if RELEASED else FROM_A_CHECKOUT


TABLES: Final[dict[str, Callable[[], str]]] = {
    "counts": counts_table,
    "extras": extras_table,
    "gateway-endpoints": endpoints_table,
    "gateway-problems": problems_table,
    "install": install_note,
    "limits": limits_table,
    "measured": lambda: markdown(("how much", "last run"), measured.lines()),
    "measured-chaos": lambda: markdown(("scenario", "worst time to recover"), measured.slowest()),
    "measured-neighbours": lambda: markdown(*measured.copied("neighbours")),
    "measured-restarts": lambda: markdown(*measured.copied("restarts")),
    "measured-soak": lambda: markdown(("what", "is"), measured.soaked()),
    "measured-tried": lambda: markdown(("tried by", "what", "the last time"), measured.tried()),
    "metrics": metrics_table,
    "packages": packages_table,
    "pools": pools_table,
    "places": places_table,
    "roles": roles_table,
    "rights": rights_table,
    "rooms": rooms_table,
    "run-states": run_states_table,
    "settings": settings_table,
    "shared-hash": shared_hash_table,
    "topics": topics_table,
    "unread": unread_table,
    "wires": wires_table,
    **{f"events-{name}": partial(events_table, dialect) for name, dialect in DIALECTS.items()},
}


def generated(text: str) -> str:
    """Return a page with its tables and install commands as they are now. KeyError for a table not in TABLES."""
    return INSTALL.sub(_from_source, BLOCK.sub(lambda block: block[1] + TABLES[block[2]]() + block[3], text))


def _from_source(command: re.Match[str]) -> str:
    if not (extras := command[2]):
        return f"{command[1]}{SOURCE}"
    server = "" if RELEASED or not command[1].startswith("pip ") or extras == "[http]" else f" {SERVER}"
    return f"{command[1]}'{SOURCE}{extras}'{server}"


def main() -> int:
    """Write the pages, or compare; -> exit status."""
    check = "--check" in sys.argv[1:]
    stale = []
    for page in sorted([*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]):
        text = page.read_text(encoding="utf-8")
        if (fresh := generated(text)) != text:
            stale.append(page.name)
            if not check:
                page.write_text(fresh, encoding="utf-8")
    for name, text in texts().items():
        path = SCHEMAS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'does not match the code; run `make docs`' if check else 'written'}")  # noqa: T201  # a script
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
