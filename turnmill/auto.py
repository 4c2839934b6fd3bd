"""`import turnmill.auto`: capture and publish this program's calls to model providers. See `docs/capture.md`.

httpx, httpx2, aiohttp and requests are hooked, whether the program imports them before this module or later. A library
that the program doesn't import isn't loaded.
"""

import logging

from turnmill.capture.hooks.importing import install
from turnmill.capture.process_end import before_exit, follow_exec, listen, tell

install()
follow_exec()
before_exit(tell)  # called behind what ends the publishing, which is registered later
logging.getLogger("turnmill.publish").addHandler(logging.NullHandler())  # where nobody reads a log, that line says it
listen()  # at import: a server that the program starts replaces the signal handlers until it stops
