"""Make the index of a run from what was found in its files, and from those that hand it on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.petastorm.names import CONF_KEY
from mdstorm_migrate.python.call_strings import RESOLVERS
from mdstorm_migrate.python.conf_writes import CONSTANT
from mdstorm_migrate.python.exchange import Exchange, Take, exchange_of, resolves
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.run.discover import CODE
from mdstorm_migrate.run.files import LARGEST, FileOutcome
from mdstorm_migrate.run.index import FileFacts, RunIndex
from mdstorm_migrate.run.naming import Configured, ImportGraph, Naming, takes_of
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.sources import find_source

#: The rule about the configuration's key.
_CONF = "PM105"
_CONSTANT = CONSTANT.encode()
#: Rules about files that set the configuration.
_SETTING_CONF = frozenset({"PM408", "PM409"})
_NOT_OURS = FileFacts(Exchange(), is_ours=False)
_IMPORTS = re.compile(
    rb"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)"
    rb"|import[ \t][^\n]*|%run[ \t][^\n]*)",
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+|\*")
_RESOLVERS = re.compile(RESOLVERS.encode() + rb"\(")


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
    read = list(each(_imports_of, left, jobs)) if naming or _matters(facts) else []
    if naming:
        resolving = {one.path for one in read if one.resolves}
        resolving |= {path for path, one in facts.items() if one.exchange.resolves}
        reaching = _reaching(naming, _graph(facts, read), Configured(resolving))
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


def _graph(facts: Mapping[Path, FileFacts], read: Iterable[_Imports]) -> ImportGraph:
    takes: dict[Path, Collection[Take]] = {one.path: tuple(one.takes()) for one in read}
    takes |= {path: one.exchange.takes for path, one in facts.items() if path.suffix in CODE}
    return ImportGraph(takes)


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
        else:
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


@dataclass(frozen=True)
class _Imports:
    """The import statements of a file: the words of their modules, and of the names."""

    path: Path
    statements: tuple[tuple[frozenset[bytes], frozenset[bytes]], ...]
    texts: tuple[bytes, ...]
    resolves: bool

    def takes(self) -> Iterator[Take]:
        """Yield what they take."""
        return takes_of(self.texts)

    def take(self, given: Mapping[bytes, frozenset[bytes]]) -> bool:
        """Whether a statement takes one of the names that a file gives, or all of the file."""
        for modules, names in self.statements:
            if any(module in given for module in names):
                return True  # `from package import module`, `import module`, `%run module`
            if any(names & given[module] for module in modules if module in given):
                return True
        return False


def _handing_on(
    facts: Mapping[Path, FileFacts], left: Sequence[_Imports], jobs: int
) -> dict[Path, FileFacts]:
    """Return the facts of the files that import from those, or from each other."""
    found = dict(facts)
    while True:
        given = _given(RunIndex(found))
        importing = {one.path for one in left if one.take(given)}
        if not importing:
            return found
        left = [one for one in left if one.path not in importing]
        for path, exchange in each(_exchange_of, sorted(importing), jobs):
            found[path] = FileFacts(exchange, is_ours=False)


def _given(index: RunIndex) -> dict[bytes, frozenset[bytes]]:
    """Return the names that files give to others, by what the files are called in imports."""
    found: dict[bytes, frozenset[bytes]] = {}
    for path, one in index.facts.items():
        names = {name.encode() for name in index.gives(path)}
        if names or not one.exchange.is_known:
            name = (path.parent.name if path.stem == "__init__" else path.stem).encode()
            found[name] = found.get(name, frozenset()) | names | {b"*"}
    return found


def _imports_of(path: Path) -> _Imports | None:
    try:
        data = b"" if path.stat().st_size > LARGEST else path.read_bytes()
    except OSError:
        return None
    found = []
    texts = tuple(match.group() for match in _IMPORTS.finditer(data))
    for text in texts:
        before, _, after = text.partition(b"import")
        is_from = b"from" in before
        words = frozenset(_WORD.findall(after if is_from else text))
        found.append((frozenset(_WORD.findall(before)) if is_from else words, words))
    does = _RESOLVERS.search(data) is not None and resolves(data.decode(errors="replace"))
    return _Imports(path, tuple(found), texts, does) if found else None


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
