"""The examples and the quick start run as written and print the output that they show."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import run_command, without_session

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with this Python's commands first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**without_session(), "PATH": path, "TMPDIR": str(folder), "COLUMNS": "120"}
    return run_command(*command, cwd=folder, env=env)


def test_every_example_is_tested_here_or_is_a_notebook() -> None:
    programs = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("[!_]*.py")}
    elsewhere = ("databricks", "many_machines")  # tests/cluster runs many_machines
    names = {str(path) for path in programs if path.parts[0] not in elsewhere}
    assert names == {"quickstart.py", "legacy/train_digits.py"}  # 09_migration runs train_digits


@pytest.mark.long
def test_quickstart_training_improves_predictions(tmp_path: Path) -> None:
    done = run(tmp_path, "python", EXAMPLES / "quickstart.py", "--rows", "4000", "--steps", "40")
    assert done.stderr == ""  # Spark's messages are suppressed
    assert list(tmp_path.rglob("*.mds")) == []  # converted DataFrames are removed
    _, written, read, *held_out = done.stdout.splitlines()
    rows, size, seconds = numbers(written)
    assert 0.9 * 4000 < rows < 4000  # cancelled and diverted flights are omitted
    assert min(size, seconds, *numbers(read)) > 0
    before, after = (numbers(line)[-1] for line in held_out)
    assert after < before - 5  # in minutes


def numbers(line: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,.]*", line)]


def steps(text: str) -> list[tuple[str, str]]:
    """Return the commands on a page, except installation, and the output shown for each."""
    blocks = "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S))
    found = re.findall(r"^\$ (.+)\n((?:[^$].*\n)*)", blocks, re.M)
    return [step for step in found if step[0].startswith(("mdstorm", "python train"))]


@pytest.mark.long
def test_petastorm_quick_start_commands_print_the_shown_output(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "quickstart" / "petastorm.md").read_text("utf-8")
    files = re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", text, re.M | re.S)
    for name, code in files:
        (tmp_path / name).write_text(code.replace("file:///tmp", tmp_path.as_uri()), "utf-8")
    assert len(steps(text)) == 5
    for command, shown in steps(text):
        assert shown in run(tmp_path, *shlex.split(command)).stdout
    assert (tmp_path / "train.py").read_text("utf-8").startswith("from mdstorm.spark import")
