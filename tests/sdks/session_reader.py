"""Runs inside an environment with claude-agent-sdk: what its own reader finds in the sessions of CLAUDE_CONFIG_DIR.

python session_reader.py fork SESSION MESSAGE TITLE -> prints the id of the new session
python session_reader.py read -> prints {session: {"title", "branch", "cwd", "messages": […], "agents": {id: […]}}}
"""

import json
import sys

from claude_agent_sdk import fork_session, get_session_messages, get_subagent_messages, list_sessions, list_subagents


def read(session: object) -> dict:
    name = session.session_id
    agents = {one: [m.message for m in get_subagent_messages(name, one)] for one in list_subagents(name)}
    messages = [one.message for one in get_session_messages(name)]
    facts = {"title": session.custom_title, "branch": session.git_branch, "cwd": session.cwd}
    return {**facts, "messages": messages, "agents": agents}


if sys.argv[1] == "fork":
    found = fork_session(sys.argv[2], up_to_message_id=sys.argv[3], title=sys.argv[4]).session_id
else:
    found = {one.session_id: read(one) for one in list_sessions()}
print(json.dumps(found))  # noqa: T201
