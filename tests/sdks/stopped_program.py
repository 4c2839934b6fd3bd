"""Runs inside an environment with some SDK and this package: `python stopped_program.py NAME`, a key of SDKS.

Each line of the input names a talk, and says whether its answer is streamed; the provider's address, in a variable,
has NAME where a talk's name belongs. The provider talks until its connection ends. Prints for each talk how it ended.
"""

# Each environment has one of the SDKs, so they are imported where they are used.

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import turnmill

KEY: Final = "sk-of-the-provider-0123456789"
opened = AsyncExitStack()
publishers: list[turnmill.Publisher] = []
seen: list[str] = []  # what came last, where a stream is ended by no exception

Talk = Callable[[str, bool], Awaitable[None]]  # its name, and whether the answer is streamed


def address(variable: str, name: str) -> str:
    return os.environ[variable].replace("NAME", name)


def asked(name: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": name}]}


async def read(answer: Any) -> None:
    """Read a stream to its end, of either kind."""
    if hasattr(answer, "__aiter__"):
        async for _ in answer:
            pass
    else:
        for _ in answer:
            pass


def of_openai(name: str, *, sync: bool = False) -> Any:
    import openai

    return (openai.OpenAI if sync else openai.AsyncOpenAI)(api_key=KEY, base_url=address("OPENAI_BASE_URL", name))


async def openai_chat(name: str, stream: bool) -> None:  # noqa: FBT001  # each SDK is asked in the same words
    answer = of_openai(name, sync=True).chat.completions.create(**asked(name), stream=stream)
    await read(answer if stream else ())


async def openai_async(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    answer = await of_openai(name).chat.completions.create(**asked(name), stream=stream)
    await read(answer if stream else ())


async def openai_responses(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    if stream:
        with of_openai(name, sync=True).responses.stream(model="m", input=name) as answer:
            await read(answer)
    else:
        of_openai(name, sync=True).responses.create(model="m", input=name)


async def anthropic_sync(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    import anthropic

    client = anthropic.Anthropic(api_key=KEY, base_url=address("ANTHROPIC_BASE_URL", name))
    if stream:
        with client.messages.stream(**asked(name), max_tokens=9) as answer:
            await read(answer)
    else:
        client.messages.create(**asked(name), max_tokens=9)


async def anthropic_async(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    import anthropic

    client = anthropic.AsyncAnthropic(api_key=KEY, base_url=address("ANTHROPIC_BASE_URL", name))
    if stream:
        async with client.messages.stream(**asked(name), max_tokens=9) as answer:
            await read(answer)
    else:
        await client.messages.create(**asked(name), max_tokens=9)


def of_google(name: str) -> Any:
    from google import genai
    from google.genai import types

    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02)  # by itself it never does
    options = types.HttpOptions(base_url=address("GOOGLE_GEMINI_BASE_URL", name), retry_options=retries)
    return genai.Client(api_key=KEY, http_options=options)


async def google(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    with of_google(name) as client:
        if stream:
            await read(client.models.generate_content_stream(model="m", contents=name))
        else:
            client.models.generate_content(model="m", contents=name)


async def google_async(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    client = of_google(name).aio
    if stream:
        await read(await client.models.generate_content_stream(model="m", contents=name))
    else:
        await client.models.generate_content(model="m", contents=name)


async def mistral(name: str, stream: bool) -> None:  # noqa: FBT001  # as above
    from mistralai.client import Mistral

    client = Mistral(KEY, server_url=address("OPENAI_BASE_URL", name).removesuffix("/v1"))
    if stream:
        await read(client.chat.stream(**asked(name)))
    else:
        client.chat.complete(**asked(name))


async def publisher() -> turnmill.Publisher:
    """The program's own, of those that have one."""
    if not publishers:
        publishers.append(await opened.enter_async_context(turnmill.Publisher()))
    return publishers[0]


async def teed(dialect: str, begin: Callable[[str], Any], name: str, _: bool) -> None:  # noqa: FBT001  # as above
    """The stream of an SDK, through `run.tee`."""
    begun = begin(name)
    stream = await begun if asyncio.iscoroutine(begun) else begun
    async with (await publisher()).run(thread_id=name, agent_id="a", dialect=dialect) as run:
        await read(run.tee(stream))


async def teed_without_a_loop(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    with (
        turnmill.SyncPublisher() as publisher,
        publisher.run(thread_id=name, agent_id="a", dialect="openai-chat") as run,
    ):
        for _chunk in run.tee(chat_stream(name, sync=True)):
            pass


def chat_stream(name: str, *, sync: bool) -> Any:
    return of_openai(name, sync=sync).chat.completions.create(**asked(name), stream=True)


def messages_stream(name: str) -> Any:
    import anthropic

    client = anthropic.AsyncAnthropic(api_key=KEY, base_url=address("ANTHROPIC_BASE_URL", name))
    return client.messages.create(**asked(name), max_tokens=9, stream=True)


def google_stream(name: str) -> Any:
    return of_google(name).aio.models.generate_content_stream(model="m", contents=name)


def agents_run(name: str, *tools: Any) -> Any:
    """A run of the Agents SDK, which begins at once."""
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner

    model = OpenAIResponsesModel(model="m", openai_client=of_openai(name))
    agent = Agent(name="a", model=model, tools=list(tools))
    return Runner.run_streamed(agent, name, run_config=RunConfig(group_id=name))


def agents_stream(name: str) -> Any:
    from agents import set_trace_processors

    set_trace_processors([])
    return agents_run(name).stream_events()


async def agents_processor(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    """Behind a tool's call: a trace tells of a run once its model has answered."""
    from agents import function_tool, set_trace_processors

    processor = turnmill.openai_agents_processor()
    set_trace_processors([processor])
    result = processor.stoppable(agents_run(name, function_tool(weather)))
    async for event in result.stream_events():
        seen[:] = [event.type]


def weather() -> str:
    """Tell the weather."""
    return "It rains."


def pydantic_agent(name: str) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=of_openai(name))), name="a")


async def pydantic_events(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    await read(turnmill.agent_events(await publisher(), pydantic_agent(name), name, thread_id=name))


def posted(body: dict[str, Any]) -> Any:
    """What the client of a web application posts."""
    from starlette.requests import Request

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}, receive)


def adapter(dialect: str) -> Any:
    """Pydantic AI's, to the AI SDK or to AG-UI."""
    if dialect == "ag-ui":
        from pydantic_ai.ui.ag_ui import AGUIAdapter

        return AGUIAdapter
    from pydantic_ai.ui.vercel_ai import VercelAIAdapter

    return VercelAIAdapter


async def pydantic_response(dialect: str, name: str, _: bool) -> None:  # noqa: FBT001  # as above
    said, body = {"id": "q", "role": "user"}, {"id": name, "trigger": "submit-message"}  # a chat's
    if dialect == "ag-ui":
        body = {"threadId": name, "runId": name, "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    spoken = {"content": name} if dialect == "ag-ui" else {"parts": [{"type": "text", "text": name}]}
    body["messages"] = [said | spoken]
    response = await adapter(dialect).dispatch_request(posted(body), agent=pydantic_agent(name))
    published = turnmill.published_response(
        await publisher(), response, thread_id=name, agent_id="a", dialect=dialect, info={"request": body}
    )
    async for chunk in published.body_iterator:
        seen[:] = [chunk if isinstance(chunk, str) else bytes(chunk).decode()]


def graph(name: str) -> Any:
    from langchain_core.runnables import RunnableLambda
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph

    # Its timeout of a chunk is asyncio.wait_for, which loses a cancellation now and then before Python 3.12.
    options: Any = {"streaming": True, "stream_chunk_timeout": None}
    model = ChatOpenAI(model="m", api_key=KEY, base_url=address("OPENAI_BASE_URL", name), **options)

    def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    async def acall(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    node = RunnableLambda(call, acall)
    made = StateGraph(MessagesState).add_node("model", node).add_node("again", node)
    return made.add_edge(START, "model").add_edge("model", "again").compile()


def graph_stream(name: str) -> Any:
    return graph(name).astream({"messages": [("user", name)]}, stream_mode=["messages", "updates", "values"])


async def graph_handler(how: str, name: str, _: bool) -> None:  # noqa: FBT001  # as above
    config = {"configurable": {"thread_id": name}, "callbacks": [turnmill.langchain_handler()]}
    call, said = getattr(graph(name), how), {"messages": [("user", name)]}
    await (call(said, config) if how == "ainvoke" else asyncio.to_thread(call, said, config))


def claude_options(name: str, folder: str) -> Any:
    from claude_agent_sdk import ClaudeAgentOptions

    variables = {
        "ANTHROPIC_BASE_URL": address("ANTHROPIC_BASE_URL", name),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": folder,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "HOME": folder,
    }
    return ClaudeAgentOptions(tools=[], cwd=folder, env=variables, model="m", include_partial_messages=True)


async def claude_query(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        await read(turnmill.claude_query(prompt=name, options=claude_options(name, folder), thread_id=name))


async def claude_client(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    from claude_agent_sdk import ClaudeSDKClient

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        made = ClaudeSDKClient(claude_options(name, folder))
        async with turnmill.claude_client(made, thread_id=name) as client:
            await client.query(name)
            async for message in client.receive_response():
                seen[:] = [type(message).__name__]


async def adk_events(name: str, *plugins: Any) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps import App
    from google.adk.models import Gemini
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai.types import Content, Part

    sessions = InMemorySessionService()
    agent = LlmAgent(name="a", model=Gemini(model="gemini-2.5-flash", client=of_google(name)), tools=[weather])
    runner = Runner(app=App(name="app", root_agent=agent, plugins=list(plugins)), session_service=sessions)
    session = await sessions.create_session(app_name="app", user_id="u", session_id=name)
    return runner.run_async(
        user_id="u",
        session_id=session.id,
        new_message=Content(role="user", parts=[Part(text=name)]),
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    )


async def adk_plugin(name: str, _: bool) -> None:  # noqa: FBT001  # as above
    await read(await adk_events(name, turnmill.AdkPlugin()))


SDKS: dict[str, Talk] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "openai-async": openai_async,
    "anthropic": anthropic_sync,
    "anthropic-async": anthropic_async,
    "google-genai": google,
    "google-genai-async": google_async,
    "mistral": mistral,
    "tee-openai": partial(teed, "openai-chat", partial(chat_stream, sync=False)),
    "tee-openai-sync": partial(teed, "openai-chat", partial(chat_stream, sync=True)),
    "tee-without-a-loop": teed_without_a_loop,
    "tee-anthropic": partial(teed, "anthropic", messages_stream),
    "tee-google": partial(teed, "gemini", google_stream),
    "tee-agents": partial(teed, "openai-agents", agents_stream),
    "tee-langgraph": partial(teed, "langgraph", graph_stream),
    "tee-adk": partial(teed, "google-adk", adk_events),
    "agents": agents_processor,
    "pydantic-events": pydantic_events,
    "pydantic-ai-sdk": partial(pydantic_response, "vercel-ai"),
    "pydantic-ag-ui": partial(pydantic_response, "ag-ui"),
    "langgraph-invoke": partial(graph_handler, "invoke"),
    "langgraph-ainvoke": partial(graph_handler, "ainvoke"),
    "claude-query": claude_query,
    "claude-client": claude_client,
    "adk": adk_plugin,
}


def chain(error: BaseException | None) -> list[str]:
    return [] if error is None else [type(error).__name__, *chain(error.__cause__ or error.__context__)]


async def ended(talk: Talk, name: str, stream: bool) -> dict[str, Any]:  # noqa: FBT001  # as above
    try:
        await talk(name, stream)
    except Exception as error:
        status = getattr(error, "status_code", getattr(error, "code", None))
        return {"raised": chain(error), "status": status, "message": f"{error} {getattr(error, 'body', '')}"}
    return {"raised": [], "seen": seen}


async def main() -> None:
    async with opened:
        while line := await asyncio.to_thread(sys.stdin.readline):
            given = json.loads(line)
            seen.clear()
            found = await ended(SDKS[sys.argv[1]], given["name"], given["stream"])
            print(json.dumps(found), flush=True)  # noqa: T201  # its result


if __name__ == "__main__":
    asyncio.run(main())
