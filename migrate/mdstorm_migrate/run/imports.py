"""Which file of a run an import or a ``%run`` means."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from mdstorm_migrate.python.exchange import Take
from mdstorm_migrate.run.discover import CODE


class Resolver:
    """Finds files by the names that imports have for them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._by_stem: dict[str, list[tuple[tuple[str, ...], Path]]] = defaultdict(list)
        self._places: dict[Path, tuple[str, ...]] = {}
        for path in paths:
            if path.suffix in CODE:
                parts = PurePath(os.path.abspath(path)).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                self._places[path] = parts
                self._by_stem[parts[-1]].append((parts, path))

    def files(self, origin: Path, take: Take) -> list[Path]:
        """Return the files that a name may be taken from; none if it is of another library."""
        if take.level < 0:
            return self._run(origin, take.module)
        folder = self._places.get(origin, ())
        if origin.stem != "__init__":
            folder = folder[:-1]
        module = tuple(take.module.split(".")) if take.module else ()
        if take.level:
            base = folder[: len(folder) - take.level + 1]
            return self._exactly((*base, *module, take.name)) or self._exactly((*base, *module))
        if take.name not in ("", "*"):
            return self._nearest(folder, (*module, take.name)) or self._nearest(folder, module)
        return self._nearest(folder, module)

    def _exactly(self, parts: Sequence[str]) -> list[Path]:
        at = self._by_stem.get(parts[-1], ()) if parts else ()
        return [path for place, path in at if place == tuple(parts)]

    def _nearest(self, folder: Sequence[str], module: Sequence[str]) -> list[Path]:
        """Return the files of a module: those below a folder that the importer is below, if any."""
        if not module:
            return []
        at = self._by_stem.get(module[-1], ())
        found = [(place, path) for place, path in at if place[-len(module) :] == tuple(module)]
        near = [
            (place, path)
            for place, path in found
            if tuple(folder[: len(place) - len(module)]) == place[: -len(module)]
        ]
        if near:
            longest = max(len(place) for place, _ in near)
            return [path for place, path in near if len(place) == longest]
        return [path for _, path in found]

    def _run(self, origin: Path, target: str) -> list[Path]:
        """Return what ``%run`` means, relative to the notebook; an absolute path by its end."""
        written = PurePath(target)
        suffixless = written.with_suffix("") if written.suffix in CODE else written
        if not written.is_absolute():
            folder = self._places.get(origin, ("",))[:-1]
            joined = os.path.normpath(os.path.join(*folder, str(suffixless))) if folder else ""
            return self._exactly(PurePath(joined).parts)
        at = self._by_stem.get(suffixless.name, ())
        ends = suffixless.parts[-2:]
        return [path for place, path in at if place[-len(ends) :] == ends]
