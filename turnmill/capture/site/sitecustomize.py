"""Runs when Python starts in a program of `turnmill run`: loads the program's `sitecustomize`, then our hooks.

The folder of this file is in PYTHONPATH, so that it runs in child processes, too; it is removed from `sys.path`.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib is not loaded yet

sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]  # noqa: PTH100  # as above
sys.path_importer_cache.pop(HERE, None)
_own = PathFinder.find_spec("sitecustomize", sys.path)
if _own is not None and _own.loader is not None:
    _module = module_from_spec(_own)
    sys.modules["sitecustomize"] = _module
    try:
        _own.loader.exec_module(_module)
    except Exception:  # like Python's site: report it, and go on
        sys.excepthook(*sys.exc_info())
try:
    import turnmill.auto  # noqa: F401  # the import installs the hooks
except ModuleNotFoundError as error:
    if error.name != "turnmill":  # a Python without turnmill: its calls aren't captured
        sys.stderr.write(f"turnmill: model calls are not captured: {error}\n")
except Exception as error:
    sys.stderr.write(f"turnmill: model calls are not captured: {error}\n")
