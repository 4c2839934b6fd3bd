"""Runs inside an environment with pydantic-ai, its AG-UI adapter and this package: a web application of AG-UI.

python ag_ui_server.py PORT. The client's `threadId` says which case is played. The publisher's broker does not answer:
what it publishes is in its spool.
"""

import sys

import uvicorn
from ag_ui_recorder import agent
from fastapi import FastAPI, Request, Response
from pydantic_ai.ui.ag_ui import AGUIAdapter
from scripted import CASES

from turnmill import PublishStreams

app = FastAPI()
app.add_middleware(PublishStreams, agent_id="weather", dialect="ag-ui")


@app.post("/agent")
async def run(request: Request) -> Response:
    """One run of the case."""
    case = (await request.json())["threadId"]
    return await AGUIAdapter.dispatch_request(request, agent=agent(CASES[case]))


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
