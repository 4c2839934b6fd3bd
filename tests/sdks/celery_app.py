"""Runs inside an environment with Celery, httpx and this package: a task that asks a model, at ADDRESS of environ."""

import os

import httpx
from celery import Celery

app = Celery("celery_app", broker="filesystem://")
folder = os.environ["QUEUE"]
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder}


@app.task
def ask(user: str) -> int:
    body = {"model": "m", "user": user, "messages": [{"role": "user", "content": "Weather?"}]}
    return httpx.post(f"{os.environ['ADDRESS']}/plain/x/v1/chat/completions", json=body).status_code
