"""The examples and the quick start run as written and print the output that they show."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.programs import run_command, without_session

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


#: An environment with Petastorm, if `benchmarks/make_environments.sh petastorm` has made it.
PETASTORM = ROOT / "benchmarks" / ".environments" / "petastorm" / "bin"
#: A block on a page: the content of a file, or commands with their output.
BLOCK = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n```python|```console)\n(?P<text>.*?)^```$", re.M | re.S
)
#: A command that is run, and its output. Other commands install something or change environments.
STEP = re.compile(
    r"^\$ (?:~/new/bin/)?(?P<command>(?:mdstorm|grep|python (?!-m)).+)\n(?P<shown>(?:[^$].*\n)*)",
    re.M,
)


def run(
    folder: Path, *command: str | Path, scripts: Path = Path(sys.executable).parent
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the commands of an environment first on the PATH."""
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    env = {**without_session(), "PATH": path, "TMPDIR": str(folder), "COLUMNS": "120"}
    env |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(scripts / "python"))
    return run_command(*command, cwd=folder, env=env)


def follow(page: str, folder: Path) -> list[str]:
    """Write the files on a page, run its commands, and check the output that it shows.

    Programs are recorded with Petastorm if it is installed, and otherwise with mdstorm.
    """
    followed = []
    text = (ROOT / "docs" / page).read_text("utf-8")
    for block in BLOCK.finditer(text.replace("file:///tmp", folder.as_uri())):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"], "utf-8")
            continue
        for command, shown in STEP.findall(block["text"]):
            followed.append(command)
            scripts = Path(sys.executable).parent
            if command.startswith("python record.py") and PETASTORM.exists():
                scripts = PETASTORM
            elif command.startswith("python record.py"):
                command = command.replace("python", "mdstorm run", 1)
            if not PETASTORM.exists():
                shown = re.sub(r"petastorm \S+ and (mdstorm [\d.]+)", r"\1 and \1", shown)
            output = run(folder, "bash", "-c", command, scripts=scripts).stdout
            assert shown in output, command
    return followed


def test_every_example_is_tested_here_or_is_a_notebook() -> None:
    programs = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("[!_]*.py")}
    elsewhere = ("databricks", "many_machines")  # tests/slow/cluster runs many_machines
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


@pytest.mark.long
def test_petastorm_quick_start_commands_print_the_shown_output(tmp_path: Path) -> None:
    followed = follow("quickstart/petastorm.md", tmp_path)
    assert len(followed) == 8
    assert followed[-1].startswith("mdstorm compare")
    assert "\nfrom mdstorm.spark import" in (tmp_path / "train.py").read_text("utf-8")


@pytest.mark.long
def test_commands_of_migration_walkthrough_print_the_shown_output(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "legacy", tmp_path / "legacy")
    followed = follow("migrate/walkthrough.md", folder)
    assert len(followed) == 10
    assert "petastorm" not in (folder / "requirements.txt").read_text("utf-8")
