"""`mdstorm migrate` on a large repository and on one long file.

    python benchmarks/measure_migrate.py [--files 10000] [--jobs 2]

Each file has 100 lines, and one file in a hundred uses Petastorm. Nothing is written: the command
shows a diff, which is the default. Prints one line of JSON with the time in seconds and the peak
memory of all processes together in bytes, sampled every 20 ms (Linux only). Exit code 1 if a target
is missed: 20 s and 500 MB for the repository, 4 s for a file with 5,000 lines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sizes import size

PROGRAMS = Path(__file__).parents[1] / "tests" / "unit" / "migrate" / "programs"
LINES, SHARE = 100, 100
PROMISED_S, PROMISED_BYTES, PROMISED_LONG_S = 20, 500_000_000, 4
LONG_LINES = 5_000

_PLAIN = "def area_{n}(width, height):\n    # of a rectangle\n    return width * height + {n}\n\n"


def main() -> int:
    options = parsed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_repository(folder / "repository", options.files)
        runs = [
            measured([folder / "repository", "-j", str(options.jobs)]) for _ in range(options.runs)
        ]
        long = folder / "long.py"
        long.write_text(long_file())
        long_runs = [measured([long])[0] for _ in range(options.runs)]
    figures = {
        "files": options.files,
        "jobs": options.jobs,
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "slowest_s": max(seconds for seconds, _ in runs),
        "peak_bytes": max(peak for _, peak in runs),
        "long_file_s": statistics.median(long_runs),
    }
    print(json.dumps(figures))
    kept = (
        figures["seconds"] < PROMISED_S
        and figures["peak_bytes"] < PROMISED_BYTES
        and figures["long_file_s"] < PROMISED_LONG_S
    )
    return 0 if kept else 1


def parsed() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=size(10_000, 10))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=size(3, 1))
    return parser.parse_args()


def write_repository(folder: Path, files: int) -> None:
    """Write folders of 100 files of 100 lines; one file per folder contains a test program."""
    programs = [path.read_text() for path in sorted(PROGRAMS.glob("*.py"))]
    for number in range(files):
        path = folder / f"package_{number // SHARE:03}" / f"module_{number % SHARE:02}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        use = number % SHARE == 0
        text = programs[number // SHARE % len(programs)] if use else ""
        path.write_text(filled(text, LINES))


def long_file() -> str:
    """Return 5,000 lines: the test programs one after another, then plain functions."""
    texts = [path.read_text() for path in sorted(PROGRAMS.glob("*.py"))]
    texts = [text for text in texts if "from __future__" not in text]
    return filled("\n".join(texts), LONG_LINES)


def filled(text: str, lines: int) -> str:
    """Append functions to Python code until it has the given number of lines."""
    rest = max(lines - text.count("\n"), 0) // _PLAIN.count("\n")
    return text + "\n" + "".join(_PLAIN.format(n=number) for number in range(rest))


def measured(arguments: list[object]) -> tuple[float, int]:
    """Return the seconds that the command takes, and the peak memory of its processes."""
    command = [sys.executable, "-m", "mdstorm", "migrate", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, memory_of(process.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        assert process.stderr is not None
        raise RuntimeError(process.stderr.read().decode())
    return seconds, peak


def memory_of(process: int) -> int:
    """Return the resident memory of a process and its descendants in bytes; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0 kB")
    return int(line.split()[1]) * 1024 + sum(memory_of(int(child)) for child in children)


if __name__ == "__main__":
    sys.exit(main())
