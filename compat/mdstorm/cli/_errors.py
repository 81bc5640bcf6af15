"""Report errors on the command line as one clear line, without a traceback."""

from __future__ import annotations

from typing import Any

import click

from mdstorm_backend.errors import MDStormError

PROBLEMS_FOUND = 1
COULD_NOT_READ = 3


class Group(click.Group):
    """A group that reports the errors of mdstorm and of the operating system."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of the output has closed it: click handles that
        except (MDStormError, OSError) as error:
            click.echo(f"error: {' '.join(str(error).split())}", err=True)
            ctx.exit(COULD_NOT_READ)
