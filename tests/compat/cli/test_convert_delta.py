"""``mdstorm convert`` and ``mdstorm verify --against`` with Delta tables."""

from pathlib import Path

import pytest
from tests.compat.cli.running import run
from tests.delta_tables import two_versions


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return two_versions(tmp_path / "table")


def test_a_version_is_converted_and_compared(table: Path, tmp_path: Path) -> None:
    result = run("convert", table, tmp_path / "mds", "--version", 0)
    assert "5 rows" in result.stdout
    command = f"verify --version 0 --against {table} {tmp_path}/mds"
    assert result.stdout.endswith(f"mdstorm {command}\n")
    assert run(*command.split()).exit_code == 0
    assert run("verify", "--against", table, tmp_path / "mds").exit_code == 1
    late = ["--timestamp", "2100-01-01T00:00:00+02:00"]
    assert "3 rows" in run("convert", table, tmp_path / "late", *late).stdout


def test_what_has_no_version_is_told(table: Path, tmp_path: Path) -> None:
    result = run("convert", table, tmp_path / "mds", "--version", 9)
    assert (result.exit_code, "no version 9: the newest one is 1" in result.stderr) == (3, True)
    assert not (tmp_path / "mds").exists()
    result = run("convert", table, tmp_path / "mds", "--timestamp", "now")
    assert (result.exit_code, "'now' is not a time" in result.stderr) == (2, True)
    result = run("verify", tmp_path / "mds", "--version", 1)
    assert (result.exit_code, "need --against" in result.stderr) == (2, True)
