"""Measure mdstorm and alternative libraries, including ones that do not read MDS.

    python benchmarks/run_peers.py [--rounds 3]

Each library reads the same rows from its own format, in a separate process, one after the other,
round by round. Writes `results_peers.json` next to this file, or `--output`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from comparison import HERE, INTERPRETERS, Target, compare, measure, prepared
from measure_peers import BORDER, BORDER_TITLE, LIBRARIES, TASKS, write_data
from sizes import size


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=size(3, 1))
    parser.add_argument("--output", type=Path, default=HERE / "results_peers.json")
    options = parser.parse_args()

    libraries = prepared(LIBRARIES, "peers")
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        environment = {"HF_HOME": f"{folder}/datasets", "HF_HUB_OFFLINE": "1"}
        for number in range(1, options.rounds + 1):
            one = {}
            for library in libraries:
                print(f"round {number} of {options.rounds}: {library}", file=sys.stderr, flush=True)
                python = library if library in INTERPRETERS else "peers"
                one[library] = measure(python, "measure_peers.py", library, folder, **environment)
            rounds.append(one)
    titles = {key: task.title for key, task in TASKS.items()} | {BORDER: BORDER_TITLE}
    # There are no targets, because these libraries have other purposes, and some win a task.
    targets = [
        Target(f"{title}, against {name}", f"mdstorm.{key}", f"{library}.{key}", None)
        for key, title in titles.items()
        for library, (name, *_) in LIBRARIES.items()
        if library != "mdstorm" and key in rounds[0].get(library, {})
    ]
    load = os.getloadavg()[2]
    compare(rounds, targets, options.output, unit="rows per CPU-second", load=load, tasks=titles)


if __name__ == "__main__":
    main()
