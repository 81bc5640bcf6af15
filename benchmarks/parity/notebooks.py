"""Run the notebooks in `examples/databricks/before` on Petastorm and on mdstorm.

They were written for Petastorm, and run unedited on mdstorm with `mdstorm run`. Their output must
be the same, except that accuracies may differ slightly. Petastorm's own accuracies differ by a few
hundredths between runs, because its threads return row groups in arbitrary order. Now and then its
reader ends before the first row, and a process trains on nothing: a notebook whose output differs
runs on Petastorm again, up to `ATTEMPTS` times. Run it with an interpreter that has mdstorm and
hyperopt, such as the one for `make test-trainers`. Petastorm's environment comes from
`../make_environments.sh`.

Exit code 0 means that the output is the same; exit code 1 means that differences are listed.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEFORE = ROOT / "examples" / "databricks" / "before"
_FRACTION = re.compile(r"\d+\.\d+")
_TOLERANCE = 0.1
ATTEMPTS = 3
DIRECTORY = "file:///tmp/examples-cache"
COMMANDS = {
    "petastorm": [ROOT / "benchmarks" / ".environments" / "petastorm" / "bin" / "python"],
    "mdstorm": [Path(sys.executable), "-m", "mdstorm", "run"],
}


def printed(library: str, notebook: Path, folder: Path) -> list[str]:
    """Return the lines that a notebook prints when its source runs as a Python program.

    Lines with paths specific to the run, such as launchers' process logs, are left out.
    """
    program = folder / notebook.name
    text = notebook.read_text("utf-8")
    assert text.count(DIRECTORY) == 1, f"{notebook} names {DIRECTORY} {text.count(DIRECTORY)} times"
    program.write_text(text.replace(DIRECTORY, (folder / library).as_uri()), "utf-8")
    python, *arguments = COMMANDS[library]
    settings = {
        "OMP_NUM_THREADS": "1",  # otherwise torchrun prints that it sets this variable
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [python, *arguments, program],
        env={**os.environ, **settings},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr[-4000:]}\n{notebook} failed on {library}; see above.")
    return [line for line in done.stdout.splitlines() if str(folder) not in line]


def agree(one: list[str], other: list[str]) -> bool:
    """Whether lines are equal except for fractions, which only have to be close."""
    words = [[_FRACTION.sub("#", line) for line in lines] for lines in (one, other)]
    fractions = [map(float, _FRACTION.findall("\n".join(lines))) for lines in (one, other)]
    return words[0] == words[1] and all(
        math.isclose(*pair, abs_tol=_TOLERANCE) for pair in zip(*fractions, strict=True)
    )


def main() -> int:
    """Run each notebook on both libraries, and print the differences."""
    subprocess.run([ROOT / "benchmarks" / "make_environments.sh"], check=True)
    differences: list[str] = []
    for notebook in sorted(BEFORE.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            found = printed("mdstorm", notebook, Path(folder))
            for _ in range(ATTEMPTS):
                expected = printed("petastorm", notebook, Path(folder))
                if agree(expected, found):
                    break
        print(f"--- {notebook.name}\n" + "\n".join(found))
        if not agree(expected, found):
            differences += difflib.unified_diff(expected, found, *COMMANDS, lineterm="", n=0)
    print("\n".join(differences) or "the notebooks print the same")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
