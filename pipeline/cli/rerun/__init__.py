"""`turnmill rerun`: the request behind a stored answer, changed and sent again, and the two answers side by side."""

from pipeline.cli.rerun.command import rerun

commands = [rerun]
