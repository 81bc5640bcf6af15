"""The examples run, do what they promise, and leave nothing behind."""

from __future__ import annotations

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
    names = {str(path) for path in programs if path.parts[0] != "databricks"}
    assert names == {"quickstart.py", "legacy/train_digits.py"}  # the latter by 09_migration


@pytest.mark.long
def test_quickstart_prints_a_table_of_models_that_have_learned(tmp_path: Path) -> None:
    done = run(tmp_path, EXAMPLES / "quickstart.py", "--rows", "4000", "--steps", "40")
    assert done.stderr == ""  # Spark and TensorFlow are kept quiet
    cells = [re.split(r"\s*[│┃]\s*", line)[1:-1] for line in done.stdout.splitlines()]
    table = {row[0]: row[1:] for row in cells if row}
    assert table[""] == ["flights", "digits as arrays", "digits as PNG"]
    flights, *digits = map(number, table["rows"])
    assert 0.9 * 4000 < flights < 4000  # without the flights that were cancelled or diverted
    assert digits == [1797, 1797]
    for figure in (
        "bytes on disk",
        "seconds to write",
        "rows/s in PyTorch",
        "rows/s in TensorFlow",
    ):
        assert all(number(cell) > 0 for cell in table[figure]), figure

    before = [number(cell) for cell in table["held out, before training"]]
    after = [number(cell) for cell in table["held out, after training"]]
    assert after[0] < before[0] - 5  # minutes
    assert min(after[1:]) > max(before[1:]) + 30  # per cent
    assert after[1] == pytest.approx(after[2], abs=2)  # however the images are stored


def number(cell: str) -> float:
    found = re.match(r"[\d,.]+", cell)
    assert found, cell
    return float(found[0].replace(",", ""))
