"""The command `mdstorm`."""

import pytest
from click.testing import CliRunner

import mdstorm
from mdstorm.cli import main


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"mdstorm, version {mdstorm.__version__}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option: str) -> None:
    result = CliRunner().invoke(main, [option])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["no-such-command"])
    assert result.exit_code == 2
    assert "No such command" in result.output
