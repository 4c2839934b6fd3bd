#!/bin/sh
# langchain 1.5: SummarizationMiddleware replaces the history by a *human* message with the summary. Only
# `additional_kwargs.lc_source` tells that no human has said it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3 langgraph==1.2.24
"$folder/env/bin/python" - <<'PROGRAM'
from importlib.metadata import version

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

summary = GenericFakeChatModel(messages=iter([AIMessage("They counted to two.")]))
answers = GenericFakeChatModel(messages=iter([AIMessage("Three.")]))
middleware = SummarizationMiddleware(summary, trigger=("messages", 4), keep=("messages", 1))
agent = create_agent(answers, middleware=[middleware])
said = [HumanMessage("One?"), AIMessage("One."), HumanMessage("Two?"), AIMessage("Two."), HumanMessage("Three?")]
kept = [(one.type, one.text, one.additional_kwargs) for one in agent.invoke({"messages": said})["messages"]]
print("langchain", version("langchain"))
for one in kept:
    print(*map(repr, one))
assert [kind for kind, _, _ in kept] == ["human", "human", "ai"]
assert kept[0][1].endswith("They counted to two.") and kept[0][2] == {"lc_source": "summarization"}
PROGRAM
