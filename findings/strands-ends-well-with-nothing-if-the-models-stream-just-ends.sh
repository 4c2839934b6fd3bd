#!/bin/sh
# strands-agents 1.62: a model's stream that ends in order, but before messageStop, is an answer that ended well, of no
# content: `stop_reason` is end_turn, the message has no block, and nothing is raised, though text was shown.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet strands-agents==1.62.0
cat >program.py <<'PROGRAM'
from importlib.metadata import version

from strands import Agent
from strands.models.model import Model


class Scripted(Model):
    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *given, **named):
        raise NotImplementedError  # abstract in Model; nothing here asks for it
        yield

    async def stream(self, *given, **named):
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Two hares"}}}


shown = []
result = Agent(model=Scripted(), callback_handler=lambda **event: shown.append(event.get("data", "")))("How many?")
found = "".join(shown), result.stop_reason, result.message["content"]
print(f"strands-agents {version('strands-agents')}: shown, stop_reason, content: {found}")
assert found == ("Two hares", "end_turn", [])
PROGRAM
env/bin/python program.py
