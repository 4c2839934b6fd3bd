"""`python -m turnmill`: the `turnmill` command."""

from turnmill.command_line import main

if __name__ == "__main__":
    main()
