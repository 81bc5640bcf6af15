"""The examples run, do what they promise, and leave nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(tmp_path: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run an example by Python; converted DataFrames must be gone afterwards."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.mds")) == []
    return done


def test_every_example_is_tested_here_or_is_a_notebook() -> None:
    programs = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("[!_]*.py")}
    elsewhere = ("databricks", "many_machines")  # the latter by tests/cluster
    names = {str(path) for path in programs if path.parts[0] not in elsewhere}
    assert names == {"quickstart.py", "legacy/train_digits.py"}  # the latter by 09_migration


@pytest.mark.long
def test_quickstart_trains_a_model_that_has_learned(tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / "quickstart.py", "--rows", "4000", "--steps", "40")
    assert done.stderr == ""  # Spark is kept quiet
    _, written, read, *held_out = done.stdout.splitlines()
    rows, size, seconds = numbers(written)
    assert 0.9 * 4000 < rows < 4000  # without the flights that were cancelled or diverted
    assert min(size, seconds, *numbers(read)) > 0
    before, after = (numbers(line)[-1] for line in held_out)
    assert after < before - 5  # minutes


def numbers(line: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,.]*", line)]
