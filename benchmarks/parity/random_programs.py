"""Run random programs on mdstorm and on Petastorm or MosaicML Streaming, and compare the results.

    random_programs.py [petastorm|mosaic FIRST COUNT]

Without arguments, it runs 300 Petastorm programs and 150 MosaicML Streaming programs. Programs in
which the other library raises an error are counted but not compared.

Exit code 0 means that values, types and order are the same; exit code 1 means that the output lists
programs that differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from compare import HERE, PYTHONS, write_datasets

COUNTS = {"petastorm": 300, "mosaic": 150}
SCRIPTS = {"petastorm": "random_readers.py", "mosaic": "random_streams.py"}
MOSAIC = HERE.parent / ".environments" / "mosaic" / "bin" / "python"


def play(library: str, script: str, data: Path, numbers: range) -> dict[str, Any]:
    """Return the programs' results, keyed by program number."""
    results = data / f"{library}.json"
    python = {**PYTHONS, "mosaic": MOSAIC}[library]
    command = [python, HERE / script, library, data, results, *map(str, numbers)]
    # Use a separate temporary directory, because MosaicML Streaming keeps its lock files there.
    environment = {**os.environ, "TMPDIR": str(data)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr[-4000:]}\n{script} failed on {library}; see above.")
    found: dict[str, Any] = json.loads(results.read_text("utf-8"))
    return found


def compare(peer: str, first: int, count: int) -> int:
    """Print how many programs have equal results; return how many differ."""
    numbers = range(first, first + count)
    with tempfile.TemporaryDirectory() as folder:
        if peer == "petastorm":
            for writer in ("petastorm", "mdstorm"):
                write_datasets(writer, Path(folder))
        one = partial(play, script=SCRIPTS[peer], data=Path(folder), numbers=numbers)
        with ThreadPoolExecutor() as both:
            theirs, ours = both.map(one, (peer, "mdstorm"))
    raised = Counter(one["raises"][:90] for one in theirs.values() if "raises" in one)
    differing = [n for n, one in theirs.items() if "found" in one and one != ours[n]]
    for number in differing:
        print(f"{peer} {number}:\n{first_difference(theirs[number], ours[number])}")
    for error, times in raised.most_common():
        print(f"{peer} raises in {times}: {error}")
    same = count - len(differing) - raised.total()
    print(f"{peer}: {same} programs are equal, {len(differing)} differ, {raised.total()} raise")
    return len(differing)


def first_difference(expected: Any, found: Any) -> str:
    """Return the first lines that differ between two results."""
    texts = (
        json.dumps(one, indent=1, ensure_ascii=False).splitlines() for one in (expected, found)
    )
    return "\n".join(line[:300] for line in islice(unified_diff(*texts, n=0, lineterm=""), 8))


def main() -> int:
    """Compare the programs specified on the command line, or all programs."""
    subprocess.run([HERE.parent / "make_environments.sh"], check=True)
    if sys.argv[1:]:
        peer, first, count = sys.argv[1:]
        return 1 if compare(peer, int(first), int(count)) else 0
    return 1 if sum(compare(peer, 0, count) for peer, count in COUNTS.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
