#!/bin/sh
# Authlib 1.9.9: its Starlette client speaks HTTP by httpx2 where that can be imported, and else by httpx. Their errors
# have no class in common, so an application that catches `httpx.HTTPError` where its provider of sign-in is away, as
# it did, answers 500 from the day on which any other package brings httpx2 along; nothing of its own has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet authlib==1.9.9 httpx==0.28.1 starlette==1.10.0 itsdangerous==2.2.0
cat >program.py <<'PROGRAM'
import asyncio
import socket
import warnings

warnings.simplefilter("ignore")
import httpx
from authlib.integrations.starlette_client import OAuth

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    nobody = "http://127.0.0.1:%d/.well-known/openid-configuration" % free.getsockname()[1]


async def main():
    oauth = OAuth()
    oauth.register("sso", client_id="c", client_secret="s", server_metadata_url=nobody)
    try:
        await oauth.create_client("sso").load_server_metadata()
    except httpx.HTTPError as error:
        print(type(error).__module__, "caught")
    except Exception as error:
        print(type(error).__module__, "not caught")


asyncio.run(main())
PROGRAM
before=$(venv/bin/python program.py)
venv/bin/pip install --quiet httpx2==2.16.2
after=$(venv/bin/python program.py)
echo "authlib 1.9.9, except httpx.HTTPError: with httpx alone: $before; beside httpx2 2.16.2: $after"
test "$before" = "httpx caught"
test "$after" = "httpx2 not caught"
