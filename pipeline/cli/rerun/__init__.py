"""`turnmill rerun`: sends the request of a stored answer again, with changes, and compares the two answers."""

from pipeline.cli.rerun.command import rerun

commands = [rerun]
