"""Make the index of a run from what was found in its files, and from those that hand it on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.conf_writes import CONSTANT
from mdstorm_migrate.python.exchange import Exchange, exchange_of
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.run.files import LARGEST, FileOutcome
from mdstorm_migrate.run.index import Facts, RunIndex
from mdstorm_migrate.run.pool import each
from mdstorm_migrate.sources import find_source

_CODE = frozenset({".py", ".ipynb"})
#: The rule about the configuration's key.
_CONF = "PM105"
_CONSTANT = CONSTANT.encode()
_NOT_OURS = Facts(Exchange(), is_ours=False)
_IMPORTS = re.compile(
    rb"^[ \t\"]*(?:\#[ \t]*MAGIC[ \t]+)?(?:from[ \t]+[^\n]*?import[ \t]*(?:\([^)]*\)|[^\n]*)"
    rb"|import[ \t][^\n]*|%run[ \t][^\n]*)",
    re.MULTILINE,
)
_WORD = re.compile(rb"\w+|\*")


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
    left = [path for path in paths if path.suffix in _CODE and path not in facts]
    if len(facts) > 1 and _matters(facts.values()):
        facts = _handing_on(facts, left, jobs)
    if any(edit.rule == _CONF for one in outcomes for edit in one.outcome.edits):
        for path in each(_splits_conf, left, jobs):
            facts[path] = replace(facts.get(path, _NOT_OURS), splits_conf=True)
    return RunIndex(facts)


def _splits_conf(path: Path) -> Path | None:
    """Return a file that has moved and sets the old key, which mdstorm's constant holds."""
    try:
        return path if path.stat().st_size <= LARGEST and _CONSTANT in path.read_bytes() else None
    except OSError:
        return None


def _matters(facts: Iterable[Facts]) -> bool:
    """Whether files may have to wait for others."""
    return any(one.stays is not None or one.exchange.needs_root for one in facts)


def _facts(one: FileOutcome) -> Facts:
    outcome = one.outcome
    splits = any(found.rule == _CONF for found in outcome.findings)
    if outcome.problems and outcome.exchange is None and one.path.suffix in _CODE:
        return Facts(Exchange(is_known=False), stays=str(outcome.problems[0]), splits_conf=splits)
    exchange = outcome.exchange or Exchange()
    splits |= exchange.names_conf
    return Facts(exchange, True, outcome.stays, splits, outcome.names_wait)


@dataclass(frozen=True)
class _Imports:
    """The import statements of a file: the words of their modules, and of the names."""

    path: Path
    statements: tuple[tuple[frozenset[bytes], frozenset[bytes]], ...]

    def take(self, given: Mapping[bytes, frozenset[bytes]]) -> bool:
        """Whether a statement takes one of the names that a file gives, or all of the file."""
        for modules, names in self.statements:
            if any(module in given for module in names):
                return True  # `from package import module`, `import module`, `%run module`
            if any(names & given[module] for module in modules if module in given):
                return True
        return False


def _handing_on(
    facts: Mapping[Path, Facts], others: Sequence[Path], jobs: int
) -> dict[Path, Facts]:
    """Return the facts of the files that import from those, or from each other."""
    found = dict(facts)
    left = list(each(_imports_of, others, jobs))
    while True:
        given = _given(RunIndex(found))
        importing = {one.path for one in left if one.take(given)}
        if not importing:
            return found
        left = [one for one in left if one.path not in importing]
        for path, exchange in each(_exchange_of, sorted(importing), jobs):
            found[path] = Facts(exchange, is_ours=False)


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
    for match in _IMPORTS.finditer(data):
        before, _, after = match.group().partition(b"import")
        is_from = b"from" in before
        words = frozenset(_WORD.findall(after if is_from else match.group()))
        found.append((frozenset(_WORD.findall(before)) if is_from else words, words))
    return _Imports(path, tuple(found)) if found else None


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
