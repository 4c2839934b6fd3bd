"""A real S3 server (moto) for tests, and the variables that lead to it."""

import contextlib
import logging
import uuid
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, found = server.get_host_and_port()
    try:
        yield f"http://{host}:{found}"
    finally:
        server.stop()


def variables(endpoint: str) -> dict[str, str]:
    """The standard variables of AWS, as an operator would set them."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


def use_s3(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)


def new_bucket(endpoint: str) -> str:
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    boto3.client("s3", endpoint_url=endpoint, **KEYS).create_bucket(Bucket=bucket)
    return bucket


def objects_of(endpoint: str, bucket: str) -> dict[str, bytes]:
    """Key -> content of every object, not by way of our own code."""
    client = boto3.client("s3", endpoint_url=endpoint, **KEYS)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
