"""Make the index of a run from what was found in its files, and from those that hand it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.exchange import Exchange, exchange_of
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import FileOutcome
from mdstorm_migrate.run.imports import ImportGraph, read_imports
from mdstorm_migrate.run.index import RunIndex
from mdstorm_migrate.run.origins import FileFacts, Origins
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.sources import find_source


def index_of(outcomes: Sequence[FileOutcome], paths: Sequence[Path], jobs: int = 1) -> RunIndex:
    """Return the index of a run.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
        Of the files that mention Petastorm, each as if it were alone.
    paths : sequence of Path
        All files of the run. Others than those are read only if objects of Petastorm's might reach
        a file that stays by way of them.
    jobs : int
        How many processes work.
    """
    facts = {one.path: _facts(one) for one in outcomes}
    left = [path for path in paths if path.suffix in CODE and path not in facts]
    naming = [path for path, one in facts.items() if one.naming]
    is_waiting = len(facts) > 1 and any(
        one.holds is not None or one.exchange.needs_root for one in facts.values()
    )
    read = list(each(read_imports, left, jobs)) if naming or is_waiting else []
    takes = {one.path: one.takes for one in read}
    graph = ImportGraph(takes | {path: one.exchange.takes for path, one in facts.items()})
    resolving = {one.path for one in read if one.resolves}
    resolving |= {path for path, one in facts.items() if one.exchange.resolves}
    reaching = {path: _reached(path, facts[path], graph, resolving) for path in naming}
    for path in _making_objects(facts, reaching):
        one = facts.get(path, FileFacts(Exchange(takes.get(path, ()))))
        facts[path] = replace(one, exchange=replace(one.exchange, is_known=False))
    origins = Origins(graph)
    _hand_on(origins, facts, is_waiting or bool(reaching), jobs)
    return RunIndex(origins, reaching, resolving)


def _facts(one: FileOutcome) -> FileFacts:
    outcome = one.outcome
    if outcome.problems and outcome.exchange is None and one.path.suffix in CODE:
        unknown = Exchange(is_known=False)
        return FileFacts(unknown, stays=str(outcome.problems[0]))
    exchange = outcome.exchange or Exchange()
    waits = outcome.names_wait and outcome.naming != "configures"  # which the index decides
    return FileFacts(exchange, True, outcome.stays, waits, outcome.naming)


def _reached(
    path: Path, one: FileFacts, graph: ImportGraph, resolving: Collection[Path]
) -> Collection[Path]:
    """Return what the strings of a file reach that name modules.

    Configuration reaches the nearest code that resolves names.
    """
    if one.naming == "patches":
        return graph.reached_by_patch(path)
    if one.naming == "imports":
        return graph.imported([path])
    below = ([code for code in resolving if above in code.parents] for above in path.parents)
    return next(filter(None, below), [])


def _making_objects(
    facts: Mapping[Path, FileFacts], reaching: Mapping[Path, Collection[Path]]
) -> set[Path]:
    """Return the files that make objects by names in strings: what they give is not known."""
    found = {path for path in reaching if facts[path].naming == "imports"}
    return found.union(*(reaching[p] for p in reaching if facts[p].naming == "configures"))


def _hand_on(
    origins: Origins, facts: Mapping[Path, FileFacts], is_waiting: bool, jobs: int
) -> None:
    """Add facts, and those of the files that import from these, or from each other.

    Each file is parsed once, when one that it takes from gives something of Petastorm's.
    """
    new: Mapping[Path, FileFacts] = facts
    while new:
        importing: set[Path] = set()
        for path in origins.add(new):
            if is_waiting and (origins.given[path] or not origins.facts[path].exchange.is_known):
                importing |= origins.graph.importers.get(path, set()) - origins.facts.keys()
        new = {
            path: FileFacts(exchange, is_ours=False)
            for path, exchange in each(_exchange_of, sorted(importing), jobs)
        }


def _exchange_of(path: Path) -> tuple[Path, Exchange] | None:
    """Return what a file exchanges that does not mention Petastorm; None if no source reads it."""
    try:
        data = path.read_bytes()
        source = find_source(path, data)
        if source is None:
            return None
        documents = source.read(data, path).documents
        code = next(one for one in documents if one.kind == "python")
        module = PythonModule(code, parse_python(code.code))
        return path, exchange_of(module, is_ours=False)
    except (OSError, SourceError, StopIteration, RecursionError):
        return path, Exchange(is_known=False)
