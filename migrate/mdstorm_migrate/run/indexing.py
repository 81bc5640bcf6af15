"""Make the index of a run from what was found in its files, and from those that hand it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.exchange import Exchange, exchange_of
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import FileOutcome
from mdstorm_migrate.run.graph import ImportGraph, read_imports
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
    reaching = {}
    for path in naming:
        if facts[path].naming == "patches":
            reaching[path] = graph.reached_by_patch(path)
        else:  # it makes objects by names in strings: what it gives is not known
            reaching[path] = graph.imported([path])
            unknown = replace(facts[path].exchange, is_known=False)
            facts[path] = replace(facts[path], exchange=unknown)
    origins = Origins(graph)
    _hand_on(origins, facts, is_waiting or bool(reaching), jobs)
    return RunIndex(origins, reaching, resolving)


def _facts(one: FileOutcome) -> FileFacts:
    outcome = one.outcome
    if outcome.problems and outcome.exchange is None and one.path.suffix in CODE:
        unknown = Exchange(is_known=False)
        return FileFacts(unknown, stays=str(outcome.problems[0]))
    exchange = outcome.exchange or Exchange()
    return FileFacts(exchange, True, outcome.stays, outcome.names_wait, outcome.naming)


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
