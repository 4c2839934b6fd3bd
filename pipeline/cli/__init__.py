"""The command line, a room for each kind: `pipeline/__main__.py` and `turnmill/command_line.py` list all commands."""
