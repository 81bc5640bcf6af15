"""Record programs under Petastorm, and compare what their loaders read on mdstorm.

    recorded_examples.py [NAME…]

The programs were written for Petastorm: notebooks in `examples/databricks/before`, the program in
`examples/legacy`, and examples that Petastorm installs (`upstream_examples.py`). Each is recorded
twice under Petastorm, and runs unedited on mdstorm. Run it with an interpreter that has mdstorm and
hyperopt, such as the one for `make test-trainers`. `../make_environments.sh` creates Petastorm's
environment.

Exit code 0: every loader reads the same rows, or differs as docs/differences.md describes. Exit
code 1: the output lists the loaders that differ.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PETASTORM = HERE.parent / ".environments" / "petastorm"
RECORDER = ROOT / "migrate" / "mdstorm_migrate" / "compare" / "recorder.py"
BEFORE = ROOT / "examples" / "databricks" / "before"
LEGACY = ROOT / "examples" / "legacy" / "train_digits.py"
DIRECTORY = "file:///tmp/examples-cache"
SPARK = "--master local[2] --conf spark.ui.enabled=false"

#: A program and its arguments.
Command: TypeAlias = list[str | Path]


def notebook(name: str, folder: Path) -> Command:
    """Write a copy of a notebook's source that uses a cache directory in `folder`."""
    text = (BEFORE / f"{name}.py").read_text("utf-8")
    assert text.count(DIRECTORY) == 1, f"{name} names {DIRECTORY} {text.count(DIRECTORY)} times"
    program = folder / f"{name}.py"
    program.write_text(text.replace(DIRECTORY, (folder / "cache").as_uri()), "utf-8")
    return [program]


def legacy(_: str, folder: Path) -> Command:
    """Return the program that writes digits with Petastorm's codecs and trains on them."""
    return [LEGACY, "--epochs", "2"]


def upstream(_: str, folder: Path) -> Command:
    """Copy Petastorm's installed examples, and write the datasets that they read."""
    (installed,) = PETASTORM.glob("lib/python3*/site-packages/examples")
    shutil.copytree(installed, folder / "examples")
    program = Path(shutil.copy(HERE / "upstream_examples.py", folder))
    run(PETASTORM / "bin" / "python", [program, "write", folder], folder)
    return [program, "read", folder]


#: Functions that prepare a program in an empty folder and return it with its arguments.
EXAMPLES = {
    "01_pytorch": notebook,
    "02_tensorflow": notebook,
    "13_dbfs": notebook,
    "train_digits": legacy,
    "upstream": upstream,
}


def run(python: Path, command: Command, folder: Path, expected: tuple[int, ...] = (0,)) -> str:
    """Run a Python program, and return its output."""
    settings = {
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_SUBMIT_ARGS": f"{SPARK} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [python, *command],
        env={**os.environ, **settings},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode not in expected:
        raise SystemExit(f"{done.stderr[-4000:]}\n{command[0]} failed under {python}; see above.")
    return done.stdout


def compared(name: str, folder: Path) -> list[dict[str, Any]]:
    """Record an example, compare it, and return the report on each loader."""
    command = EXAMPLES[name](name, folder)
    recording = folder / "recording.json"
    run(PETASTORM / "bin" / "python", [RECORDER, "--output", recording, *command], folder)
    compare: Command = ["-m", "mdstorm", "compare", recording, "--format", "json", "--", *command]
    report = run(Path(sys.executable), compare, folder, expected=(0, 1, 2))
    loaders: list[dict[str, Any]] = json.loads(report)["loaders"]
    return loaders


def verdict(loader: dict[str, Any]) -> str:
    """Return `equal`, `documented`, `different` or `not comparable`."""
    differences = loader["differences"]
    if differences and all(difference["documented"] for difference in differences):
        return "documented"
    return str(loader["outcome"])


def line(name: str, loader: dict[str, Any]) -> str:
    """Return a line about one loader, like those in an `mdstorm compare` report."""
    made = f"{loader['file']} {loader['function']} {loader['kind']} #{loader['call'] + 1}"
    found = loader["reason"] or f"{loader['rows']} rows"
    for each in loader["differences"][:1]:
        found = f"{each['kind']} {each['column']}: {each['detail']} {each['documented'] or ''}"
    return f"{name}: {made}: {verdict(loader)}: {found}"


def reports(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compare the examples one after another, and yield the report on each loader."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for loader in compared(name, Path(folder)):
                yield name, loader


def main(names: list[str]) -> int:
    """Compare the examples, and print a line for each loader."""
    subprocess.run([HERE.parent / "make_environments.sh", "petastorm"], check=True)
    counts: Counter[str] = Counter()
    for name, loader in reports(names or [*EXAMPLES]):
        counts[verdict(loader)] += 1
        print(line(name, loader), flush=True)
    print(", ".join(f"{count} {found}" for found, count in counts.items()))
    return 0 if counts.keys() <= {"equal", "documented"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
