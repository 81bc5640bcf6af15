"""Record programs, twice each with the real Petastorm or once each with mdstorm.

::

    benchmarks/make_environments.sh petastorm
    benchmarks/.environments/petastorm/bin/python -m tests.contract.compare.record [NAME…]
    .venv/bin/python -m tests.contract.compare.record --mdstorm FILE [NAME…]

A name is the number of a generated program, a name from `tests.contract.compare.faults`, or
``fault-N``.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.contract.compare.faults import FAULTS, PROGRAMS
from tests.contract.compare.generate import program
from tests.contract.compare.recording_here import record

RECORDED = Path(__file__).with_name("recorded.json")
GENERATED = 100


def source_of(name: str) -> str:
    """Return the source of a program."""
    if name.startswith("fault-"):
        fault = FAULTS[int(name.removeprefix("fault-"))]
        source = PROGRAMS[fault.program]
        assert source.count(fault.old) == 1, fault
        return source.replace(fault.old, fault.new)
    return PROGRAMS[name] if name in PROGRAMS else program(int(name))


def save(path: Path, found: dict[str, Any]) -> None:
    """Write one line per program, with the second run only if it differs from the first."""
    lines = []
    for name, recording in found.items():
        first, *others = [dict(run, seconds=0) for run in recording["runs"]]
        runs = [first, *(run for run in others if run != first)]
        recording = dict(recording, runs=runs)
        lines.append(f"{json.dumps(name)}: {json.dumps(recording, separators=(',', ':'))}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def load(path: Path) -> dict[str, Any]:
    """Read the file that `save` wrote, with two runs of each program."""
    found = json.loads(path.read_text("utf-8"))
    return {
        name: dict(recording, runs=(recording["runs"] * 2)[:2]) for name, recording in found.items()
    }


def main(names: list[str]) -> None:
    if names[:1] == ["--mdstorm"]:
        import mdstorm

        mdstorm.install_as_petastorm()
        path, names, runs, found = Path(names[1]), names[2:], 1, {}
    else:
        path, runs, found = RECORDED, 2, load(RECORDED) if RECORDED.exists() else {}
    for name in names or [*map(str, range(GENERATED)), *PROGRAMS]:
        found[name] = record(source_of(name), runs)
        print(name, found[name]["runs"][-1]["ended"] or "", file=sys.stderr)
    save(path, found)


if __name__ == "__main__":
    main(sys.argv[1:])
