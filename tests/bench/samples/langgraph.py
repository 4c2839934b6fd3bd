"""A run as LangGraph's older servers stream it, for benchmarks: today's do not say where it ends."""

from collections.abc import Sequence

from topics.json_text import Fields

TASK = {"langgraph_step": 1, "langgraph_node": "model", "langgraph_checkpoint_ns": "model:1"}


def answer(deltas: Sequence[str]) -> list[Fields]:
    """An answer of so many text deltas, and what a server sends around it."""
    message = {"id": "lc_run--1", "additional_kwargs": {}, "response_metadata": {}}
    chunk = {**message, "type": "AIMessageChunk", "tool_call_chunks": [], "usage_metadata": None}
    usage = {"input_tokens": 12, "output_tokens": len(deltas), "total_tokens": 12 + len(deltas)}
    whole = {**message, "type": "ai", "content": "".join(deltas), "tool_calls": [], "usage_metadata": usage}
    return [
        {"event": "metadata", "data": {"run_id": "r1", "attempt": 1}},
        *({"event": "messages", "data": [{**chunk, "content": delta}, TASK]} for delta in deltas),
        {"event": "updates", "data": {"model": {"messages": [whole]}}},
        {"event": "end", "data": None},
    ]
