"""`import threadmill.auto`: publishes what this program says to its models' providers. `docs/capture.md` describes it.

httpx, httpx2, aiohttp and requests tell us, those of them that the program imports, whether before this or later. No
library is imported for it.
"""

from threadmill.capture.hooks.importing import install
from threadmill.capture.process_end import listen

install()
listen()  # now: a server that the program starts has handlers of its own until it stops
