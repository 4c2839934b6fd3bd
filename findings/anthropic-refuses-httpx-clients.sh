#!/bin/sh
# anthropic 2.14: it speaks `httpx2`, and refuses a client of `httpx` that was right in 1.x, with a TypeError when it is
# made. Hooks into `httpx` no longer see its calls.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check anthropic==2.14.0 httpx==0.28.1
"$folder/env/bin/python" - <<'PROGRAM'
import anthropic
import httpx

print("anthropic", anthropic.__version__, "httpx", httpx.__version__)
try:
    anthropic.Anthropic(api_key="k", http_client=httpx.Client())
except TypeError as error:
    print("TypeError:", error)
    assert "httpx2" in str(error)
else:
    raise SystemExit("it takes a client of httpx again")
PROGRAM
