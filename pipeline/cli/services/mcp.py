"""`turnmill mcp`: an MCP server whose tools read what a gateway serves."""

import asyncio
import socket
from importlib.metadata import version
from typing import Any

import click
import uvicorn
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from pipeline.cli.running import at_gateway
from pipeline.cli.services.mcp_tools import TOOLS, query_of, shown
from pipeline.policies.local_callers import refusal
from turnmill.errors import CallerError, TurnmillError
from turnmill.gateway_call import call


@click.command(short_help="Serve conversations and usage to agents, as MCP tools.")
@click.option("--http", is_flag=True, help="Serve this machine over streamable HTTP, instead of stdin and stdout.")
@click.option("--port", default=8766, show_default=True, type=click.IntRange(0, 65_535), help="Of --http; 0: any.")
def mcp(port: int, *, http: bool) -> None:
    """Serve conversations and usage to agents, as MCP tools that only read.

    They ask the gateway of TURNMILL_PUBLISH_URL, else that of this machine: with TURNMILL_PUBLISH_TOKEN, which
    needs the scope `read`; over HTTP, with the token that each caller sends as `Authorization: Bearer`.
    """
    at_gateway()  # wrong settings are an error now, and not at the first call
    server = Server("turnmill", version=version("turnmill"), on_list_tools=_listed, on_call_tool=_called)
    asyncio.run(_serve(server, port if http else None))


async def _listed(_: object, __: object) -> types.ListToolsResult:
    more = {"annotations": types.ToolAnnotations(read_only_hint=True)}
    tools = [types.Tool(name=name, description=t.does, input_schema=t.schema(), **more) for name, t in TOOLS.items()]
    return types.ListToolsResult(tools=tools)


async def _called(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
    settings = at_gateway()
    if context.request is not None:  # over HTTP: any user of this machine can call, so the token here is lent to none
        kind, _, token = context.request.headers.get("authorization", "").partition(" ")
        given = SecretStr(token.strip()) if kind.lower() == "bearer" else None
        settings = settings.model_copy(update={"publish_token": given, "publish_token_file": None})
    try:
        if (tool := TOOLS.get(asked.name)) is None:
            raise CallerError(f"there is no tool {asked.name!r:.80}: there are {', '.join(TOOLS)}")
        text, wrong = shown(tool, await call(settings, "GET", query_of(tool, asked.arguments or {}))), False
    except (TurnmillError, ValueError, RecursionError) as error:  # the last two: not JSON, or nested too deeply
        advice = "" if isinstance(error, CallerError) else f": does a gateway run at {settings.publish_url}?"
        text, wrong = f"{error}{advice}", True
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=wrong)


async def _serve(server: Server, port: int | None) -> None:
    if port is None:
        async with stdio_server() as (heard, said):
            await server.run(heard, said, server.create_initialization_options())
        return
    inner = server.streamable_http_app(stateless_http=True, json_response=True)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        why = refusal(Request(scope).headers) if scope["type"] == "http" else None
        await (inner if why is None else PlainTextResponse(why, 403))(scope, receive, send)

    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise CallerError(f"port {port} can't be used: {error.strerror}; --port names another") from None
    click.echo(f"turnmill: mcp; http://127.0.0.1:{listening.getsockname()[1]}/mcp", err=True)
    # Not by httptools, where that is installed, too: bodies of Java's client would be lost (uvicorn#2722).
    config = uvicorn.Config(app, http="h11", ws="none", log_config=None, access_log=False)
    await uvicorn.Server(config).serve(sockets=[listening])
