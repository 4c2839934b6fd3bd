"""Look-ups that take long, as of a name whose servers never answer: read by Python where this folder is on its path."""

import socket
import time
from typing import Any

_asked = socket.getaddrinfo


def _slow(host: Any, *arguments: Any, **options: Any) -> Any:
    if str(host).endswith(".never.example"):
        time.sleep(30)
    return _asked(host, *arguments, **options)


socket.getaddrinfo = _slow
