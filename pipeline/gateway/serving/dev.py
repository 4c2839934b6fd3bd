"""Endpoints that kill the worker, and list past kills; only in the gateway of `turnmill dev`."""

import asyncio
import os
import signal
from pathlib import Path

from fastapi import APIRouter, Response

from pipeline.gateway.access.security import Admin
from pipeline.gateway.state import Gateway


def routes(gateway: Gateway) -> APIRouter:
    """Return the endpoints; `turnmill dev` records the kills in its folder."""
    router, folder = APIRouter(include_in_schema=False), gateway.dev or Path()

    @router.get("/v1/dev/kills")
    async def kills(_: Admin) -> Response:
        """Return the last kills, the newest first: `at` (epoch ms), `words`, `recovered`."""
        try:
            data = await asyncio.to_thread((folder / "kills.json").read_bytes)
        except FileNotFoundError:
            data = b"[]"
        return Response(data, media_type="application/json")

    @router.post("/v1/dev/kills", status_code=202)
    async def kill(_: Admin) -> None:
        """Ask the process that has started this gateway to kill the worker."""
        os.kill(os.getppid(), signal.SIGUSR1)

    return router
