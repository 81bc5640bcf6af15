"""Conditions to meet before migrated code runs: the report's section "Before you run it"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.document import is_setup_script
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.environment import IS_RELEASED, Condition, conditions_of
from mdstorm_migrate.packaging.lists import required_names
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.run.code_use import CodeUse, read_use, use_after
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.needs import read_file
from mdstorm_migrate.run.old_pyarrow import old_uses
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.sources.plain import kind_of

#: Kinds of files that describe the code's environment.
_KINDS = frozenset(
    {"cluster", "conda", "docker", "pipfile", "pyproject", "requirements", "setup_cfg", "shell"}
)
_NAMES = frozenset({".python-version", "runtime.txt", "setup.py"})
#: Libraries that Petastorm needed in old versions, or that have changed since.
_NEWER = frozenset({"lightning", "numpy", "pandas", "pyspark", "pytorch_lightning", "tensorflow"})
_LIBRARIES = (
    "installing mdstorm may upgrade other libraries: `ruff check --select NPY` finds what NumPy "
    "has removed; for pandas, PySpark, TensorFlow and Lightning, read their release notes"
)
#: Attributes that only one library's objects have, or whose meaning differs in mdstorm.
_MEANINGS = {
    b"_results_queue_reader": "mdstorm's readers do not have it",
    b"_workers_pool": "mdstorm's readers do not have it",
    b"file_urls": "a converter's are MDS shards now, not Parquet files",
}
#: Rules that report unedited lines that mention Petastorm.
_MENTION_RULES = frozenset({"PM001", "PM410"})
_EXTRAS = re.compile(rb"\bmdstorm\[([\w,-]+)\]")
_CHANGED_ATTRIBUTE = re.compile(rb"\.(%s)\b" % b"|".join(_MEANINGS))
#: Folders whose files belong to the parent folder.
_SUBFOLDERS = frozenset({"ci", "conda", "deploy", "docker", "env", "envs", "jobs", "requirements"})


#: An import from MosaicML Streaming, and a name that distinguishes it from other packages.
_STREAMING = re.compile(rb"^[ \t\">]*(?:from|import)[ \t]+streaming\b", re.MULTILINE)
_STREAMING_NAME = re.compile(rb"\b(?:MDSWriter|LocalDataset|Streaming(?:Dataset|DataLoader))\b")


def streaming_uses(paths: Iterable[Path], settings: Settings) -> Iterator[Condition]:
    """Yield a condition for the first import of MosaicML Streaming, if the run keeps it."""
    for path in paths if settings.library != "streaming" else ():
        try:
            data = path.read_bytes() if is_code(path) else b""
        except OSError:
            continue
        found = _STREAMING.search(data)
        if found and _STREAMING_NAME.search(data):
            what = "MosaicML Streaming is imported; `mdstorm migrate --from streaming` replaces it"
            line = data.count(b"\n", 0, found.start()) + 1
            yield Condition("names", what, path, line)
            return


def before_running(
    outcomes: Sequence[FileOutcome], paths: Sequence[Path], settings: Settings
) -> list[Condition]:
    """Return the conditions to meet before a run's files are used, most general first.

    Parameters
    ----------
    outcomes : sequence of FileOutcome
        The outcomes of the files that mention Petastorm.
    paths : sequence of Path
        All files in the project. If several paths refer to the same file, the first is shown.
    settings : Settings
    """
    use = CodeUse()
    code = [one for one in outcomes if is_code(one.path) or _is_page(one)]
    for one in code:
        use |= use_after(one)
    lists = [one for one in outcomes if one.requires and not is_code(one.path)]
    if not (use.uses_either or any(one.changed for one in outcomes)):
        return []
    files = {path.resolve(): path for path in reversed(paths)}.values()
    # Files that make the loaders of a converter from another file need not mention Petastorm.
    others = {path for path in files if is_code(path)}.difference(one.path for one in code)
    extras = use.extras.union(*(one[1].extras for one in map(read_use, others) if one))
    known = (path for path in files if path.name in _NAMES or kind_of(path) in _KINDS)
    around = list(dict.fromkeys([*known, *(one.path for one in lists)]))
    found = list(_installation(outcomes, around, use, settings))
    serving = _Folders([one.path for one in code if one.changed], [one.path for one in lists])
    listed = (words for one in lists for words in _EXTRAS.findall(one.outcome.after))
    extras = extras.union(*(words.decode().split(",") for words in listed))
    for path in sorted({*filter(serving.has, around), *(one.path for one in code if one.requires)}):
        found += conditions_of(path, read_file(path), extras)
    if use.moved and use.imports & _NEWER:
        found.append(Condition("libraries", _LIBRARIES))
    if use.moved:
        found += old_uses(path for path in files if is_code(path))
        found += _changed_attribute_uses(set(files).difference(one.path for one in outcomes))
    return list(dict.fromkeys([*found, *_remaining_mentions(outcomes)]))


def _is_page(one: FileOutcome) -> bool:
    """Whether a file is a page that contains code."""
    return one.outcome.links is not None and not is_setup_script(one.path)


def _changed_attribute_uses(paths: Iterable[Path]) -> Iterator[Condition]:
    """Yield uses of the attributes in `_MEANINGS` in code that does not mention Petastorm."""
    for path in sorted(path for path in paths if path.suffix == ".py"):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if found := _CHANGED_ATTRIBUTE.search(data):
            line = data.count(b"\n", 0, found.start()) + 1
            yield Condition("names", f"`{found[1].decode()}`: {_MEANINGS[found[1]]}", path, line)


def _installation(
    outcomes: Sequence[FileOutcome], around: Iterable[Path], use: CodeUse, settings: Settings
) -> Iterator[Condition]:
    """Yield conditions about where mdstorm comes from, and whether anything installs it."""
    is_found = settings.index is not None or "@" in settings.wanted.version
    if not (IS_RELEASED or is_found):
        message = (
            "mdstorm is not on a package index yet: build or fetch its wheel, and pass its path or "
            "URL to --requirement"
        )
        yield Condition("from", message)
    if use.moved and not _is_installed(outcomes, around):
        extras = use.extras - ({"spark"} if use.on_databricks else set())
        extras |= set(settings.wanted.extras)
        named = replace(settings.wanted, extras=tuple(sorted(extras)))
        yield Condition("installed", f'nothing here installs mdstorm: install "{named}"')


def _is_installed(outcomes: Iterable[FileOutcome], around: Iterable[Path]) -> bool:
    """Whether an edited file, or another list in the project, requires mdstorm."""
    edited = any(one.requires and NEW_ROOT.encode() in one.outcome.after for one in outcomes)
    return edited or any(NEW_ROOT in required_names(read_file(path).documents) for path in around)


def _remaining_mentions(outcomes: Iterable[FileOutcome]) -> Iterator[Condition]:
    """Yield one condition for each file with remaining mentions of Petastorm."""
    for one in outcomes:
        left = [found for found in one.outcome.findings if _is_mention(found)]
        if left:
            places = sorted({(found.cell or 0, found.line) for found in left})
            (cell, line), more = places[0], len(places) - 1
            rest = f", and on {more} more line{'s' * (more > 1)}" if more else ""
            yield Condition(
                "names", f"Petastorm is still mentioned here{rest}", one.path, line, cell or None
            )


def _is_mention(found: Finding) -> bool:
    return found.rule in _MENTION_RULES and not found.is_open_todo


class _Folders:
    """The folders of a run's code and requirement lists, in which related files are looked for."""

    def __init__(self, code: Sequence[Path], lists: Sequence[Path]) -> None:
        self._lists = {path.parent.resolve() for path in lists}
        folders = self._lists.union(path.parent.resolve() for path in code)
        self._above = folders.union(*(folder.parents for folder in folders))

    def has(self, path: Path) -> bool:
        """Whether a file is in a folder above the run's code or lists, or under a list's folder."""
        folder = own = path.parent.resolve()
        while folder.name.startswith(".") or folder.name.lower() in _SUBFOLDERS:
            folder = folder.parent
        return folder in self._above or not self._lists.isdisjoint([own, *own.parents])
