"""The command in this process."""

from typing import Any

from click.testing import Result
from tests.migrate.checks import invoke

from mdstorm.cli import main


def run(*arguments: object, **options: Any) -> Result:
    """Run the command; what it says on the two outputs is kept apart."""
    result = invoke(main, *arguments, **options)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result
