"""`import turnmill.auto`: publishes what this program says to its models' providers. `docs/capture.md` describes it.

httpx, httpx2, aiohttp and requests tell us, those of them that the program imports, whether before this or later. No
library is imported for it.
"""

from turnmill.capture.hooks.importing import install
from turnmill.capture.process_end import listen

install()
listen()  # now: a server that the program starts has handlers of its own until it stops
