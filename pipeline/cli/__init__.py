"""The command line: a room for each kind of commands. `pipeline/__main__.py` says where each command is."""
