"""Make the index of a run from what was found in its files, and from those that hand it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.petastorm.names import CONF_KEY
from mdstorm_migrate.python.conf_writes import CONSTANT
from mdstorm_migrate.python.exchange import Exchange, exchange_of
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.file_facts import FileFacts
from mdstorm_migrate.run.files import LARGEST, FileOutcome
from mdstorm_migrate.run.import_lines import Importers, ImportLines, graph_of, read_imports
from mdstorm_migrate.run.imports import Resolver
from mdstorm_migrate.run.index import RunIndex
from mdstorm_migrate.run.naming import Configured, ImportGraph, Naming
from mdstorm_migrate.run.origins import Origins
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.sources import find_source

#: The rule about the configuration's key.
_CONF = "PM105"
_CONSTANT = CONSTANT.encode()
#: Rules about files that set the configuration.
_SETTING_CONF = frozenset({"PM408", "PM409"})
_NOT_OURS = FileFacts(Exchange(), is_ours=False)


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
    reaching: dict[Path, set[Path]] = {}
    resolving: set[Path] = set()
    naming = {path: one.naming for path, one in facts.items() if one.naming}
    read = list(each(read_imports, left, jobs)) if naming or _matters(facts) else []
    if naming:
        resolving = {one.path for one in read if one.resolves}
        resolving |= {path for path, one in facts.items() if one.exchange.resolves}
        reaching = _reaching(naming, graph_of(read, outcomes), Configured(resolving))
        unknown = _by_name(naming, reaching)
        taken = {one.path: tuple(one.takes()) for one in read if one.path in unknown}
        for path in unknown:
            one = facts.get(path, FileFacts(Exchange(taken.get(path, ()))))
            facts[path] = replace(one, exchange=replace(one.exchange, is_known=False))
    if len(facts) > 1 and _matters(facts):
        facts = _handing_on(facts, [one for one in read if one.path not in facts], jobs)
    if any(edit.rule == _CONF for one in outcomes for edit in one.outcome.edits):
        for path in each(_splits_conf, left, jobs):
            facts[path] = replace(facts.get(path, _NOT_OURS), splits_conf=True)
    return RunIndex(facts, reaching, resolving)


def _reaching(
    naming: Mapping[Path, Naming], graph: ImportGraph, configured: Configured
) -> dict[Path, set[Path]]:
    """Return what the strings of files reach that name modules."""
    found = {}
    for path, kind in naming.items():
        if kind == "patches":
            found[path] = graph.reached_by_patch(path)
        elif kind == "imports":
            found[path] = graph.imported([path])
        elif kind == "configures":
            found[path] = set(configured.readers(path))
    return found


def _by_name(naming: Mapping[Path, Naming], reaching: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return the files that make objects by names in strings: what they give is not known."""
    found = {path for path, kind in naming.items() if kind == "imports"}
    return found.union(*(reaching[p] for p, kind in naming.items() if kind == "configures"))


def _splits_conf(path: Path) -> Path | None:
    """Return a file that has moved and sets the old key, which mdstorm's constant holds."""
    try:
        return path if path.stat().st_size <= LARGEST and _CONSTANT in path.read_bytes() else None
    except OSError:
        return None


def _matters(facts: Mapping[Path, FileFacts]) -> bool:
    """Whether files may have to wait for others."""
    return any(one.holds is not None or one.exchange.needs_root for one in facts.values())


def _facts(one: FileOutcome) -> FileFacts:
    outcome = one.outcome
    splits = any(found.rule == _CONF for found in outcome.findings)
    if outcome.problems and outcome.exchange is None and one.path.suffix in CODE:
        return FileFacts(
            Exchange(is_known=False), stays=str(outcome.problems[0]), splits_conf=splits
        )
    exchange = outcome.exchange or Exchange()
    splits |= exchange.names_conf
    is_set = any(found.rule in _SETTING_CONF for found in outcome.findings)
    splits |= is_set and CONF_KEY.encode() in outcome.after
    waits = outcome.names_wait and outcome.naming != "configures"  # which the index decides
    return FileFacts(exchange, True, outcome.stays, splits, waits, outcome.naming)


def _handing_on(
    facts: Mapping[Path, FileFacts], left: Sequence[ImportLines], jobs: int
) -> dict[Path, FileFacts]:
    """Return the facts of the files that import from those, or from each other.

    Each file is parsed once, when one that it takes from gives something of Petastorm's.
    """
    origins = Origins(Resolver([*facts, *(one.path for one in left)]))
    importers = Importers(left)
    new: Mapping[Path, FileFacts] = facts
    while new:
        importing: set[Path] = set()
        for path in origins.add(new):
            names = origins.given[path].keys()
            if names or not origins.facts[path].exchange.is_known:
                name = path.parent.name if path.stem == "__init__" else path.stem
                importing.update(importers.of(name, names))
        new = {
            path: FileFacts(exchange, is_ours=False)
            for path, exchange in each(_exchange_of, sorted(importing), jobs)
        }
    return origins.facts


def _exchange_of(path: Path) -> tuple[Path, Exchange] | None:
    """Return what a file exchanges that does not mention Petastorm; None if it cannot be read."""
    data = path.read_bytes()
    source = find_source(path, data[:256])
    if source is None:
        return None
    try:
        documents = source.read(data, path).documents
        code = next(one for one in documents if one.kind == "python")
        module = PythonModule(code, parse_python(code.code))
        return path, exchange_of(module, is_ours=False)
    except (SourceError, StopIteration, RecursionError):
        return path, Exchange(is_known=False)
