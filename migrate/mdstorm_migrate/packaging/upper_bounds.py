"""What keeps Petastorm working where it stays beside mdstorm, whose libraries may be newer.

Its last version opens datasets through a part of pyarrow that 15 lacks, and 16 lacks what it
imports; the pyarrow before 15 is built for NumPy 1. mdstorm alone takes the newest of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.packaging.bounds import conflicts, release
from mdstorm_migrate.packaging.pin import Pin

#: The first versions that Petastorm does not work with.
ENDS = {"pyarrow": "15", "numpy": "2"}
#: The same, in words.
WORDS = " and ".join(f"{name}<{end}" for name, end in ENDS.items())

#: The lower end of a clause, or its only version.
_FIRST = re.compile(r"\s*(?:===?|~=|>=?|=|\^|~)?\s*v?(?P<version>\d[\w.*]*)")


def upper_bounds(pins: Iterable[Pin]) -> tuple[str, ...]:
    """Return the requirements that Petastorm needs beside mdstorm and some pins.

    There are none where a pin lets no older version be installed, or stands in a variable.
    """
    pins = [pin for pin in pins if pin.name in ENDS]
    if any(_is_newer(pin) for pin in pins):
        return ()
    old = {pin.name for pin in pins if conflicts(pin.specifier, ENDS[pin.name], pin.style)}
    return tuple(f"{name}<{end}" for name, end in ENDS.items() if name not in old)


def _is_newer(pin: Pin) -> bool:
    if re.search(r"[${]", pin.specifier):
        return True
    clauses = (_FIRST.match(one) for one in re.split(r"[,|]", pin.specifier.strip(" ()")))
    return any(one and release(one["version"]) >= release(ENDS[pin.name]) for one in clauses)
