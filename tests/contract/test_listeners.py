"""Every place in the product that listens, and what keeps strangers out there: each has a line here."""

import ast

from tests.contract.test_rooms import ROOT, product

LISTENS = {"TCPSite", "UnixSite", "SockSite", "create_server", "create_unix_server", "start_server", "run_app"}
OF_SOCKETS = {"listen", "bind"}  # what others call so has no such owner
SERVERS = {"http.server", "socketserver", "wsgiref", "xmlrpc.server"}

# Module -> what refuses those for whom it isn't, in that module or in the module that is named.
DOORS = {
    "pipeline.gateway.serving.server": "pipeline.gateway.access.authenticator: refusal",  # without tokens; else tokens
    "pipeline.worker.processes.health": "pipeline.worker.processes.health: refusal",  # on loopback; else the network's
    "pipeline.cli.programs.proxy": "pipeline.cli.programs.proxy: compare_digest",  # the token of a program
    "pipeline.cli.services.mcp": "pipeline.cli.services.mcp: refusal",  # other hosts and pages; callers have tokens
    "pipeline.devbroker.ports": "",  # only looks which ports are free
}
# Modules that serve by another one's listener, and refuse for themselves.
BY_OTHERS = {"pipeline.cli.mock.serving": "pipeline.cli.mock.serving: refusal"}


def listens(tree: ast.Module) -> bool:
    """Whether a module opens a socket for others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {getattr(node, "module", None), *(alias.name for alias in node.names)}
            if names & SERVERS:
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_a_socket = ast.unparse(node.func.value) in ("server", "socket", "sock", "listener")
            if node.func.attr in LISTENS or (node.func.attr in OF_SOCKETS and of_a_socket):
                return True
    return False


def test_each_listener_says_what_keeps_strangers_out() -> None:
    sources = {}
    for path in product():
        sources[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path.read_text(encoding="utf-8")
    assert {module for module, source in sources.items() if listens(ast.parse(source))} == set(DOORS)
    for guard in filter(None, (*DOORS.values(), *BY_OTHERS.values())):
        module, _, function = guard.partition(": ")
        assert f"{function}(" in sources[module], guard
    assert {module for module, source in sources.items() if " served(" in source} <= {*DOORS, *BY_OTHERS}


def test_a_listener_is_seen_however_it_is_written() -> None:
    for source in (
        "import socket\nsocket.create_server(('', 0))",
        "async def f():\n    await asyncio.start_server(print)",
        "from http.server import HTTPServer",
        "import socketserver",
        "server.listen(1)",
    ):
        assert listens(ast.parse(source)), source
    assert not listens(ast.parse("follower.listen(self)\nevent.listen(engine, 'begin', print)"))
