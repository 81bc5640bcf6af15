"""Report errors on the command line as one clear line, without a traceback."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click

from mdstorm_backend.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    MDStormError,
    MissingColumnError,
    UnsupportedURLError,
)

PROBLEMS_FOUND = 1
COULD_NOT_READ = 3

#: What Python itself returns after an uncaught exception, and a shell after Ctrl-C.
FAILED = 1
INTERRUPTED = 130

_WRONG_COMMAND_LINE = 2
#: Errors in what was asked for.
_OF_ARGUMENTS = (
    ArgumentTypeError,
    InvalidArgumentError,
    MissingColumnError,
    UnsupportedURLError,
)


class Group(click.Group):
    """A group that reports the errors of mdstorm and of the operating system."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is an error that names the most similar one."""
        names = self.list_commands(ctx)
        nearest = get_close_matches(args[0], names, n=1)
        if nearest and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}: did you mean {nearest[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of the output has closed it: click handles that
        except (MDStormError, OSError) as error:
            click.echo(f"error: {' '.join(str(error).split())}", err=True)
            ctx.exit(_WRONG_COMMAND_LINE if isinstance(error, _OF_ARGUMENTS) else COULD_NOT_READ)
        except KeyboardInterrupt as interrupt:
            click.echo(": ".join(["interrupted", *map(str, interrupt.args)]), err=True)
            ctx.exit(INTERRUPTED)
