"""Groups of commands: after a misspelt command they say what is meant."""

from difflib import get_close_matches

import click


class Group(click.Group):
    """Commands, and groups of them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments. Raises UsageError, which names the command that is meant."""
        names = self.list_commands(ctx)
        alike = [] if args[0] in names or args[0].startswith("-") else get_close_matches(args[0], names, 1)
        if alike:
            raise click.UsageError(f"There is no command {args[0]!r}: is {alike[0]!r} meant?", ctx)
        return super().resolve_command(ctx, args)
