"""Run `program.py` on Petastorm and on mdstorm, and compare every batch.

Then each library writes datasets with a Unischema using `datasets.py`, the other library appends to
them, and both read all of them.

Exit code 0 means that columns, shapes, types and values are equal; exit code 1 means that the
output lists differences. Run it with an interpreter that has mdstorm. Petastorm's environment comes
from `../make_environments.sh`.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PYTHONS = {
    "petastorm": HERE.parent / ".environments" / "petastorm" / "bin" / "python",
    "mdstorm": Path(sys.executable),
}


def run_program(python: Path, library: str, folder: Path) -> dict[str, np.ndarray]:
    """Run the program; return its saved arrays by `precision/framework/batch/column`."""
    batches = folder / f"{library}.npz"
    done = subprocess.run(
        [python, HERE / "program.py", library, batches], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr[-4000:]}\nThe program failed on {library}; see above.")
    print(f"--- {library}\n{done.stdout}")
    with np.load(batches) as saved:
        return dict(saved)


def differences(expected: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> list[str]:
    """List the arrays that are missing, unexpected, or not equal to the expected ones."""
    lines = []
    for key in sorted(expected.keys() | found.keys()):
        if key not in found or key not in expected:
            lines.append(f"{key}: only in {'mdstorm' if key in found else 'petastorm'}")
            continue
        before, now = expected[key], found[key]
        if (before.dtype, before.shape) != (now.dtype, now.shape):
            lines.append(f"{key}: {before.dtype}{before.shape} became {now.dtype}{now.shape}")
        elif before.tobytes() != now.tobytes():
            lines.append(f"{key}: {int((before != now).sum())} of {before.size} values differ")
    return lines


def write_datasets(writer: str, folder: Path) -> None:
    """Write datasets with one library, and append to them with the other."""
    other = next(library for library in PYTHONS if library != writer)
    run_datasets(writer, "write", folder / writer)
    run_datasets(other, "append", folder / writer)


def datasets_of(writer: str, folder: Path) -> list[str]:
    """List differences between the libraries when reading the datasets that one of them wrote."""
    write_datasets(writer, folder)
    lines = {}
    for reader in PYTHONS:
        file = folder / f"{writer}-{reader}.txt"
        run_datasets(reader, "read", folder / writer, file)
        lines[reader] = file.read_text("utf-8").splitlines()
    theirs, ours = lines["petastorm"], lines["mdstorm"]
    print(f"--- {writer} wrote, the other appended: {len(theirs)} lines")
    return [line for line in difflib.unified_diff(theirs, ours, lineterm="", n=0) if line]


def run_datasets(library: str, *arguments: str | Path) -> None:
    command = [PYTHONS[library], HERE / "datasets.py", library, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr[-4000:]}\n{library} failed to {arguments[0]} datasets.")


def main() -> int:
    """Run both libraries, and print the differences."""
    subprocess.run([HERE.parent / "make_environments.sh"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        expected = run_program(PYTHONS["petastorm"], "petastorm", Path(folder))
        found = run_program(PYTHONS["mdstorm"], "mdstorm", Path(folder))
        lines = differences(expected, found)
        for writer in PYTHONS:
            lines += datasets_of(writer, Path(folder))
    print("\n".join(lines) or f"{len(expected)} arrays are equal")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
