"""The examples run, do what they promise, and leave nothing behind."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

#: Their examples are run by `tests.trainers.test_tuners`.
TUNERS = ("hyperopt", "joblib", "optuna")


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


def test_every_example_is_tested_here_or_with_its_trainer() -> None:
    names = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("[!_]*.py")}
    names -= {f"tune_with_{tuner}.py" for tuner in TUNERS}
    assert names == {"quickstart.py", "pytorch_distributed.py", "legacy/train_digits.py"}


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


@pytest.mark.long
@pytest.mark.newest
def test_distributed_ranks_share_the_rows_and_agree_on_the_model(tmp_path: Path) -> None:
    printed = run(tmp_path, EXAMPLES / "pytorch_distributed.py").stdout
    found = re.findall(r"^rank (\d): rows (.*) in batches of (.*), slope (.*)$", printed, re.M)
    assert [rank for rank, *_ in sorted(found)] == ["0", "1"]
    rows, sizes = ([ast.literal_eval(rank[column]) for rank in found] for column in (1, 2))
    assert sorted(chain(*rows)) == list(range(21))
    assert len(sizes[0]) == len(sizes[1])
    assert [sum(s) for s in sizes] == [len(r) for r in rows]
    assert len({slope for *_, slope in found}) == 1


@pytest.mark.long
@pytest.mark.newest
def test_legacy_code_runs_as_it_is_and_migrated_with_the_same_outcome(tmp_path: Path) -> None:
    legacy = EXAMPLES / "legacy" / "train_digits.py"
    before = run(tmp_path, "-m", "mdstorm", "run", legacy, "--epochs", "4").stdout
    copy = Path(shutil.copytree(EXAMPLES / "legacy", tmp_path / "legacy"))
    run(tmp_path, "-m", "mdstorm", "migrate", "--write", copy)
    required = (copy / "requirements.txt").read_text().splitlines()
    assert required == ["mdstorm[torch,images,spark]", "pyspark==3.5.3", "scikit-learn"]
    after = run(tmp_path, copy / "train_digits.py", "--epochs", "4").stdout
    right, rows = map(int, re.findall(r"recognised (\d+) of (\d+)", before)[0])
    assert right > 0.8 * rows
    assert after == before
