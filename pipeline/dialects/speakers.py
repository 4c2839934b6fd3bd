"""Agents that speak in turns of a run with several agents: hand-offs, sequences, agents side by side."""

from pipeline.assembly.builder import Builder
from pipeline.turns.times import iso


def speaker(builder: Builder, name: str) -> str:
    """Return the id of the agent with this name, and register it.

    The id is the name, unless it is the name of the run's agent.
    """
    context = builder.context
    if name in ("", context.agent_name, context.agent_id):
        return context.agent_id
    if all(agent["agent_id"] != name for agent in builder.agents):
        builder.agents.append({"agent_id": name, "agent_name": name, "created_at": iso(builder.at)})
    return name


def hand_off(builder: Builder, source: str, target: str, **fields: object) -> None:
    """Add a SystemMessage `handoff`: one agent transfers the run to another."""
    agents = {"source_agent": source, "target_agents": [target]}
    builder.system("handoff", {"from": source, "to": target}, **agents, **fields)
