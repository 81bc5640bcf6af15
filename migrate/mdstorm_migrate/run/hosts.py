"""Which machines and images are told of around a file, and whether mdstorm runs on one of them.

A list that no host names is installed on those of its project. If the files of a project tell only
of Pythons that are too old, what is installed there awaits a review with them; one host that is new
enough lets it move.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.packaging.conflicts import Conflict, is_host, is_old_host
from mdstorm_migrate.packaging.pin import Pin
from mdstorm_migrate.packaging.pins import pins_of
from mdstorm_migrate.run.discover import is_code

#: Kinds of files that host a folder of their own alone: the others describe machines.
_OWN: frozenset[Kind] = frozenset({"conda", "pipfile", "pyproject", "setup_cfg"})
#: Files whose Pythons run tools, not the code of the project, or nothing at all.
_TOOLS = re.compile(r"\.pre-commit-config\..*|\.readthedocs\..*|test_.*\.py|(?!runtime).*\.txt")


class Hosts:
    """The hosts of a project.

    Parameters
    ----------
    documents : mapping of Path to sequence of Document
        Of the files that require, install or run something.
    lists : collection of Path
        The files that require Petastorm or mdstorm.
    """

    def __init__(
        self, documents: Mapping[Path, Sequence[Document]], lists: Collection[Path]
    ) -> None:
        self.pins = {path: found for path in documents if (found := _hosts(path, documents[path]))}
        others = [one for one in lists if not (is_code(one) or one.parent.name.startswith("."))]
        self._visible: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in self.pins:
            is_own = any(one.kind in _OWN for one in documents[path]) and path in lists
            ends = {one.parent for one in others if one != path}
            for above in path.parents:
                self._visible[above].append(path)
                if above in ends or is_own:
                    break
        self.old = cache(self._old)

    def _old(self, folder: Path) -> tuple[Path, ...]:
        """Return the hosts told of in a folder, or the nearest one above it, if all are too old."""
        for above in (folder, *folder.parents):
            if found := self._visible.get(above):
                pins = [pin for path in found for pin in self.pins[path]]
                return tuple(found) if all(map(is_old_host, pins)) else ()
        return ()

    def reason(self, path: Path) -> str:
        """Return why a host that is too old holds something back."""
        conflict = Conflict(next(pin for pin in self.pins[path] if is_old_host(pin)), "")
        return f"`{conflict.shown}` of {path}: {conflict.needed}"

    def are_known(self, paths: Iterable[Path]) -> bool:
        """Whether one of some files is a host."""
        return any(path in self.pins for path in paths)


def _hosts(path: Path, documents: Sequence[Document]) -> list[Pin]:
    if _TOOLS.fullmatch(path.name) or path.parent.name in ("test", "tests"):
        return []
    return [
        pin
        for one in documents
        for pin in pins_of(one)
        if is_host(pin) and "$" not in pin.specifier
    ]
