"""Runs many attacks in one process with little memory, and prints the number of cases.

Command-line arguments: the module that defines the attacks, and a factor for the number of cases.
"""

import importlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

_ROOT = Path(__file__).parents[3]

#: Memory limit, far above what any of these small files needs and far below the sizes that
#: damaged files may state.
_ROOM = 384 << 20
#: CPU time limit for each case, in seconds.
_SECONDS = 5


def check_cases(targets: str, factor: int, scratch: Path) -> int:
    """Run a module's attacks in a separate process; return the number of cases."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", __file__, targets, str(factor)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "TMPDIR": str(scratch)},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    cases, opened = map(int, done.stdout.split())
    assert opened > cases / 10  # many damaged files must pass the first checks
    return cases


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM,) * 2)


def main(targets: str, factor: str) -> None:
    attacks = importlib.import_module(targets).ATTACKS
    plan = [(attack, name, n * int(factor)) for attack, names, n in attacks for name in names]
    for attack, name, _ in plan:
        attack(name, Random(0))  # imports dependencies before memory is limited
    limit_memory()
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    opened = 0
    for number, (attack, name, cases) in enumerate(plan):
        for case in range(cases):
            signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
            try:
                opened += attack(name, Random(1_000 * number + case))
            except BaseException:
                print(f"{attack.__name__}({name!r}, Random({1_000 * number + case}))", flush=True)
                raise
    print(sum(cases for _, _, cases in plan), opened)


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT))
    main(*sys.argv[1:])
