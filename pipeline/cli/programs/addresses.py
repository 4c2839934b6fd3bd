"""The variables and arguments by which programs send their calls of models through a proxy on this machine. Pure."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from topics.json_text import object_of
from turnmill.capture.providers import HOSTS, PROVIDERS

PRELOAD: Final = Path(__file__).with_name("node_preload.cjs")
# Variables that SDKs and programs read, and the address that they use if it is not set.
VARIABLES: Final = dict(
    sorted((name, f"{provider.base}{path}") for provider in PROVIDERS.values() for name, path in provider.read.items())
)
CHATGPT: Final = "https://chatgpt.com/backend-api/codex"  # the address that Codex uses after a login with ChatGPT
LOCAL: Final = "127.0.0.1"
IN_HEADER: Final = "-"  # in place of the token in a URL: it comes in this header, from this variable
HEADER: Final = "Turnmill-Run-Token"
VARIABLE: Final = "TURNMILL_RUN_TOKEN"
RUNTIMES: Final = frozenset({"bun", "deno", "node", "npx", "ts-node", "tsx"})
SOURCES: Final = frozenset({".cjs", ".cts", ".js", ".jsx", ".mjs", ".mts", ".ts", ".tsx"})


def through(proxy: str, address: str) -> str:
    """Return the proxy's URL for an address."""
    scheme, _, rest = address.partition("://")
    return f"{proxy}/{scheme}/{rest}"


def is_ours(address: str) -> bool:
    """Return True for a URL not to be changed: of a gateway's proxy, which publishes by itself, or an invalid URL."""
    parts = urlsplit(address)
    return parts.scheme not in ("http", "https") or not parts.hostname or parts.path.startswith("/proxy/")


def environment(variables: Mapping[str, str], proxy: str, more_hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program whose calls go through the proxy; `more_hosts`: further hosts."""
    changed = dict(variables)
    for name, default in VARIABLES.items():
        address = variables.get(name) or default
        if not is_ours(address):
            changed[name] = through(proxy, address)
    known = [pattern.pattern for pattern, _ in HOSTS] + [re.escape(host) for host in more_hosts]
    changed["TURNMILL_RUN_PROXY"], changed[VARIABLE] = proxy, proxy.rpartition("/")[2]
    changed["TURNMILL_RUN_HOSTS"] = f"^(?:{'|'.join(known)})$"
    changed["NODE_OPTIONS"] = f"{variables.get('NODE_OPTIONS', '')} --require {_quoted(str(PRELOAD))}".strip()
    for name in ("NO_PROXY", "no_proxy"):  # the network's proxy must not be used for our own on this machine
        changed[name] = ",".join(filter(None, (variables.get(name), LOCAL)))
    return changed


def arguments(command: Sequence[str], variables: Mapping[str, str], proxy: str) -> list[str]:
    """Return a command with extra arguments: Codex takes addresses not from variables, but from its configuration.

    Every user of the machine can read a command line. So the token is in a variable, which Codex sends as a header.
    """
    if Path(command[0]).name != "codex":
        return list(command)
    without_token = f"{proxy.rpartition('/')[0]}/{IN_HEADER}"
    options = [piece for option in _codex(variables, without_token) for piece in ("-c", option)]
    return [command[0], *options, *command[1:]]


def agent_of(command: Sequence[str]) -> str:
    """Return the agent's id: the name of the script that a JavaScript runtime runs, else that of the program."""
    name = Path(command[0]).name
    words = (Path(word) for word in command[1:] if not word.startswith("-"))
    scripts = (path.stem for path in words if path.suffix in SOURCES)
    return next(scripts, name) if name in RUNTIMES else name


def _codex(variables: Mapping[str, str], proxy: str) -> list[str]:
    """Return options for Codex's configuration; options of the command line come after them, and override them."""
    home = Path(variables.get("CODEX_HOME") or Path(variables.get("HOME", "~")).expanduser() / ".codex")
    settings, login = _table(home / "config.toml", tomllib.loads), _table(home / "auth.json", json.loads)
    name: Any = settings.get("model_provider")
    provider = object_of(settings.get("model_providers")).get(name)
    if isinstance(provider, dict) and isinstance(provider.get("base_url"), str):
        base = provider["base_url"]
        if is_ours(base):
            return []
        headers = _headers(provider.get("env_http_headers"))
        address = f"base_url={json.dumps(through(proxy, base))}"
        return [f"model_providers.{name}.{address}", f"model_providers.{name}.{headers}"]
    if name not in (None, "openai"):
        return []
    chatgpt = bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")
    base = CHATGPT if chatgpt else variables.get("OPENAI_BASE_URL") or VARIABLES["OPENAI_BASE_URL"]
    key = 'env_key="OPENAI_API_KEY"' if variables.get("OPENAI_API_KEY") and not login else "requires_openai_auth=true"
    address = f"base_url={json.dumps(through(proxy, base))}"
    facts = ('name="OpenAI"', address, 'wire_api="responses"', key, _headers(None))
    return ['model_provider="turnmill"', *(f"model_providers.turnmill.{fact}" for fact in facts)]


def _headers(known: Any) -> str:
    """Return the option with the headers whose values are in variables: those that are `known`, and the token's."""
    named = {**object_of(known), HEADER: VARIABLE}
    return f"env_http_headers={{{', '.join(f'{json.dumps(key)}={json.dumps(value)}' for key, value in named.items())}}}"


def _table(file: Path, loads: Callable[[str], Any]) -> dict[str, Any]:
    try:
        value = loads(file.read_text("utf-8"))
    except (OSError, ValueError):  # Codex itself reports the error
        return {}
    return object_of(value)


def _quoted(path: str) -> str:
    """Return a path quoted for NODE_OPTIONS."""
    return path if shlex.quote(path) == path else '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
