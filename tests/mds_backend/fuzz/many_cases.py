"""Run by `test_fuzz`: many cases in one process of little memory; prints their number.

Argument: a factor of that number.
"""

import resource
import signal
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.mds_backend.fuzz.targets import (
    CODECS,
    NAMES,
    ORDERS,
    attack_compression,
    attack_index,
    attack_shard,
    attack_state,
)

#: Far more than any of these small files needs, far less than the sizes they can be made to state.
_ROOM = 384 << 20
#: Seconds of processor time that a case may take.
_SECONDS = 5

PLAN = [
    (attack, name, cases)
    for attack, names, cases in (
        (attack_shard, NAMES, 25 * int(sys.argv[1])),
        (attack_index, NAMES, 15 * int(sys.argv[1])),
        (attack_compression, CODECS, 50 * int(sys.argv[1])),
        (attack_state, ORDERS, 25 * int(sys.argv[1])),
    )
    for name in names
]


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM,) * 2)


def main() -> None:
    for attack, name, _ in PLAN:
        attack(name, Random(0))  # imports what it needs
    limit_memory()
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    opened = 0
    for number, (attack, name, cases) in enumerate(PLAN):
        for case in range(cases):
            signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
            try:
                opened += attack(name, Random(1_000 * number + case))
            except BaseException:
                print(f"{attack.__name__}({name!r}, Random({1_000 * number + case}))", flush=True)
                raise
    print(sum(cases for _, _, cases in PLAN), opened)


if __name__ == "__main__":
    main()
