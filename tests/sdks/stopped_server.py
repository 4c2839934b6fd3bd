"""Runs inside an environment with pydantic-ai, its adapters and this package: python stopped_server.py PORT DIALECT.

A web application for the AI SDK or for AG-UI, with our middleware; its model is that of `stopped_program`.
"""

import sys

import uvicorn
from fastapi import FastAPI, Request, Response
from stopped_program import adapter, pydantic_agent

from turnmill import PublishStreams

app = FastAPI()
app.add_middleware(PublishStreams, agent_id="a", dialect=sys.argv[2])


@app.post("/{name}")
async def speak(request: Request, name: str) -> Response:
    """Answer as the client of the dialect reads it."""
    return await adapter(sys.argv[2]).dispatch_request(request, agent=pydantic_agent(name))


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
