"""Publish runs of OpenAI's Agents SDK by a tracing processor: of `Runner.run`, `run_sync` and `run_streamed` alike.

    agents.add_trace_processor(turnmill.openai_agents_processor())

A trace contains, for each run, the requests to its models, their answers, and the results of its tools. They become the
events that the SDK streams (wire `openai-agents`), with whole answers. Of agents in tools and in guardrails, only the
result is published, as in the SDK's items.

Source: openai-agents, src/agents/tracing. The SDK is not imported here.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from turnmill.capture.runs import PassingRun
from turnmill.capture.runtime import runtime
from turnmill.control.record import AFTER_TURN, Command
from turnmill.integrations.openai_agents_items import Fields, output_of, raw, reason_of, response_of, short, state_of

MODELS: Final = ("response", "generation")  # types of spans of model calls: by the Responses API, by any other
INSIDE: Final = ("function", "guardrail")  # types of spans in which runs are no part of the conversation
THREADS: Final = ("thread_id", "session_id", "conversation_id")
FAILED: Final = "a run of the Agents SDK is not published as a whole"

log = logging.getLogger("turnmill.publish.publisher")


def openai_agents_processor(
    *, thread_id: str | None = None, agent_id: str | None = None, tenant: str | None = None
) -> Any:
    """Return a `TracingProcessor` for `agents.add_trace_processor` or `set_trace_processors`.

    Args:
        thread_id: The thread, if neither the trace's `group_id` nor its metadata name it; by default, the trace.
        agent_id: By default the name of the run's first agent.
        tenant: The tenant.
    """
    runtime().prepare()
    return _Processor(thread_id, agent_id, tenant)


@dataclass(slots=True, eq=False)
class _RunState:
    """One run of the SDK. `calls`: by id, tool calls without a result; `results`: results of tools other than texts."""

    run_id: str
    thread_id: str
    trace_id: str
    agent: str = ""
    speaker: str = ""
    run: PassingRun | None = None
    calls: dict[str, Fields] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None
    given_up: bool = False
    stopped: bool = False


@dataclass(slots=True, eq=False)
class _Trace:
    """A trace. `spans`: its open spans, by id, with the run that they belong to, or None."""

    thread_id: str
    runs: dict[str, _RunState] = field(default_factory=dict)
    spans: dict[str, tuple[str, _RunState | None]] = field(default_factory=dict)


class _Processor:
    """The processor of traces. The SDK calls it from any thread, but for a trace from one at a time. Never raises."""

    def __init__(self, thread_id: str | None, agent_id: str | None, tenant: str | None) -> None:
        self._thread_id, self._agent_id, self._tenant = thread_id, agent_id, tenant
        self._traces: dict[str, _Trace] = {}
        self._results: WeakValueDictionary[str, Any] = WeakValueDictionary()  # by trace

    def stoppable(self, result: Any) -> Any:
        """Return the same result of `Runner.run_streamed`; from now on it is cancelled if its run is told to stop."""
        trace = getattr(result, "trace", None)
        if trace is not None:
            self._results[trace.trace_id] = result
        return result

    def on_trace_start(self, trace: Any) -> None:
        """Begin a trace of a run, or of several."""
        try:
            metadata = getattr(trace, "metadata", None) or {}
            named = (metadata.get(key) for key in THREADS) if isinstance(metadata, Mapping) else ()
            thread = getattr(trace, "group_id", None) or next(filter(None, named), None) or self._thread_id
            self._traces[trace.trace_id] = _Trace(str(thread or trace.trace_id))
        except Exception:  # failures here must not affect the program
            log.exception(FAILED)

    def on_trace_end(self, trace: Any) -> None:
        """End the runs that are still open: some releases of the SDK don't mark the end of a run."""
        try:
            known = self._traces.pop(trace.trace_id, None)
            for state in list(known.runs.values()) if known is not None else ():
                self._over(state)
        except Exception:
            log.exception(FAILED)

    def on_span_start(self, span: Any) -> None:
        """Begin a run, an agent, a call of a model or of a tool."""
        try:
            trace = self._traces.get(span.trace_id)
            if trace is None:
                return
            kind = span.span_data.type
            state = self._owner(trace, span, kind)
            trace.spans[span.span_id] = (kind, state)
            if state is not None and kind == "agent":
                state.speaker = span.span_data.name
                state.agent = state.agent or state.speaker
        except Exception:
            log.exception(FAILED)

    def on_span_end(self, span: Any) -> None:
        """End a span, which now has its result or an error."""
        try:
            trace = self._traces.get(span.trace_id)
            kind, state = trace.spans.pop(span.span_id, ("", None)) if trace is not None else ("", None)
            if trace is None or state is None:
                return
            if kind in MODELS:
                self._answered(state, span)
            elif kind == "function":
                self._returned(state, span.span_data)
            elif kind == "agent" and span.error:
                state.failed = reason_of(span.error)
            elif kind == "task":
                trace.runs.pop(state.run_id, None)
                self._over(state)
        except Exception:
            log.exception(FAILED)

    def shutdown(self) -> None:
        """Publish the rest when the SDK's tracing ends."""
        runtime().flush()

    def force_flush(self) -> None:
        """Wait until all events so far are published, or kept on disk; for some seconds at most."""
        runtime().flush()

    def _owner(self, trace: _Trace, span: Any, kind: str) -> _RunState | None:
        above, owner = trace.spans.get(span.parent_id, ("", None))
        if above in INSIDE or (above and owner is None):
            return None
        if kind == "task" or not above:
            run_id = str(span.span_id if kind == "task" else span.trace_id)
            return trace.runs.setdefault(run_id, _RunState(run_id, trace.thread_id, span.trace_id))
        return owner

    def _answered(self, state: _RunState, span: Any) -> None:
        """Publish a model's answer, and the results of tools from its input, in the form that the model has seen."""
        data = span.span_data
        response = response_of(data)
        asked = [item for item in data.input if isinstance(item, dict)] if isinstance(data.input, list) else data.input
        if response is None:
            state.failed, state.given_up = reason_of(span.error) if span.error else None, not span.error
            if state.run is None and asked:
                self._begin(state, asked)
            return
        run = state.run or self._begin(state, asked)
        for item in asked if isinstance(asked, list) else ():
            output = output_of(item)
            if output is not None and output["call_id"] in state.calls:
                self._give(state, run, output)
        state.failed, state.given_up = None, False
        run.send({"type": "agent_updated_stream_event", "new_agent": {"name": state.speaker or state.agent}})
        run.send(raw("response.created", {"id": response.get("id")}))
        run.send(raw(f"response.{state_of(response)}", response))
        state.calls = {item["call_id"]: item for item in response.get("output") or () if item.get("call_id")}
        state.results.clear()

    def _returned(self, state: _RunState, data: Any) -> None:
        """Publish a tool's result. The span doesn't name its call: the tool's name and arguments identify it."""
        named = [call for call in state.calls.values() if call.get("name") == data.name]
        same = [call for call in named if call.get("arguments") == data.input] or named
        waiting = [call for call in same if call["call_id"] not in state.results]
        if not waiting or state.run is None or data.output is None:
            return
        call_id = waiting[0]["call_id"]
        if isinstance(data.output, str):
            self._give(state, state.run, {"type": "function_call_output", "call_id": call_id, "output": data.output})
        else:
            state.results[call_id] = data.output

    def _give(self, state: _RunState, run: PassingRun, output: Fields) -> None:
        state.calls.pop(output["call_id"], None)
        item = {"type": "tool_call_output_item", "raw_item": output, "output": output["output"]}
        run.send({"type": "run_item_stream_event", "name": "tool_output", "item": item})

    def _begin(self, state: _RunState, asked: Any) -> PassingRun:
        agent = state.agent or "agent"
        state.run = runtime().run(
            thread_id=state.thread_id,
            agent_id=self._agent_id or agent,
            dialect="openai-agents",
            run_id=state.run_id,
            tenant=self._tenant,
            info={"agent_name": agent, "request": {"input": short(asked)}},
        )
        result = self._results.get(state.trace_id)
        if result is not None and state.run.stop is not None:
            state.run.stop.in_loop(partial(_cancel, state, result))
        return state.run

    def _over(self, state: _RunState) -> None:
        """End a run. If no model call was reported, since tracing leaves contents out, nothing is published."""
        run = state.run or (self._begin(state, None) if state.failed else None)
        if run is None:
            return
        for call_id, result in state.results.items():
            self._give(state, run, {"type": "function_call_output", "call_id": call_id, "output": str(result)})
        if state.failed is not None:
            run.send({"type": "raw_response_event", "data": {"type": "error", "message": state.failed}})
        state.given_up = state.given_up or state.stopped
        run.end("error" if state.failed is not None else "aborted" if state.given_up else "complete")


def _cancel(state: _RunState, result: Any, command: Command) -> None:
    """Cancel a run by the SDK's method; its output so far can still be read."""
    if state.run is None:
        return
    state.stopped = True
    if command.mode == AFTER_TURN:
        result.cancel(mode="after_turn")
        state.run.heard()
    else:
        result.cancel()
        state.run.stopped()
