"""Records the generated programs under the real Petastorm, twice each.

::

    benchmarks/make_environments.sh petastorm
    benchmarks/.environments/petastorm/bin/python -m tests.compare.record [NUMBER…]
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.compare.generate import program
from tests.compare.recording_here import record

RECORDED = Path(__file__).with_name("recorded.json")
PROGRAMS = 100


def main(numbers: list[int]) -> None:
    found: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for number in numbers or range(PROGRAMS):
        found[str(number)] = record(program(number), runs=2)
        ended = found[str(number)]["runs"][-1]["ended"]
        print(number, ended or "", file=sys.stderr)
    lines = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found, key=int))
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(list(map(int, sys.argv[1:])))
