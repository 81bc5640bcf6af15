"""Conditions to meet before migrated code runs: the report's section "Before you run it"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.environment import IS_RELEASED, Condition, conditions_of, required
from mdstorm_migrate.packaging.lists import required_names
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.run.code_use import CodeUse
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import MEANINGS, Seen, seen_in
from mdstorm_migrate.run.old_pyarrow import old_conditions
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.together import Examined
from mdstorm_migrate.sources import ListedFiles
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
#: Rules that report unedited lines that mention Petastorm.
_MENTION_RULES = frozenset({"PM001", "PM410"})
_EXTRAS = re.compile(rb"\bmdstorm\[([\w,-]+)\]")
#: Folders whose files belong to the parent folder.
_SUBFOLDERS = frozenset({"ci", "conda", "deploy", "docker", "env", "envs", "jobs", "requirements"})


def before_running(examined: Examined, settings: Settings) -> list[Condition]:
    """Return the conditions to meet before a run's files are used: first, what breaks."""
    outcomes = [one for one in examined.outcomes if one.has_results]
    use = CodeUse()
    for one in outcomes:
        use |= one.use or CodeUse()
    seen = {path: one.seen for path, one in examined.others.items()}
    seen |= {one.path: seen_in(one.path, one.content) for one in examined.outcomes}
    streaming = () if settings.library == "streaming" else _streaming_uses(seen)
    if not (use.uses_either or any(one.changed for one in outcomes)):
        return list(streaming)
    # Files that make the loaders of a converter from another file need not mention Petastorm.
    uses = [one.use for one in examined.others.values()]
    uses += [one.use for one in examined.outcomes]
    extras = use.extras.union(*(one.extras for one in uses if one is not None))
    lists = [one for one in outcomes if one.requires and not is_code(one.path)]
    known = (path for path in examined.paths if path.name in _NAMES or kind_of(path) in _KINDS)
    around = dict.fromkeys([*known, *(one.path for one in lists)])
    asked = [one for one in outcomes if one.requires or one.path in around]
    contents = examined.lists.with_contents({one.path: one.content for one in asked})
    found = list(_installation(outcomes, around, use, contents, settings))
    code = [one for one in outcomes if one.use is not None]
    serving = _Folders([one.path for one in code if one.changed], [one.path for one in lists])
    listed = (words for one in lists for words in _EXTRAS.findall(one.outcome.after))
    extras = extras.union(*(words.decode().split(",") for words in listed))
    needed = required(extras)
    for path in sorted({*filter(serving.has, around), *(one.path for one in code if one.requires)}):
        found += conditions_of(path, contents[path], needed)
    if use.moved and use.imports & _NEWER:
        found.append(Condition("libraries", _LIBRARIES))
    if use.moved:
        found += old_conditions(
            {path: seen[path].old_uses for path in examined.paths if path in seen}
        )
        reported = {one.path for one in outcomes}
        found += _changed_attribute_uses(
            {path: seen[path] for path in examined.paths if path in seen and path not in reported}
        )
    found += [*_remaining_mentions(outcomes), *streaming]
    return sorted(dict.fromkeys(found), key=lambda one: not one.breaks)


def _streaming_uses(seen: Mapping[Path, Seen]) -> Iterator[Condition]:
    """Yield a condition for the first import of MosaicML Streaming, which the run keeps."""
    for path, one in sorted(seen.items()):
        if one.streaming is not None:
            what = "MosaicML Streaming is imported; `mdstorm migrate --from streaming` replaces it"
            yield Condition("streaming", what, path, one.streaming)
            return


def _changed_attribute_uses(seen: Mapping[Path, Seen]) -> Iterator[Condition]:
    """Yield uses of the attributes in `MEANINGS` in code without other results."""
    for path, one in sorted(seen.items()):
        if one.attribute is not None:
            name, line = one.attribute
            yield Condition("names", f"`{name}`: {MEANINGS[name]}", path, line)


def _installation(
    outcomes: Sequence[FileOutcome],
    around: Iterable[Path],
    use: CodeUse,
    contents: ListedFiles,
    settings: Settings,
) -> Iterator[Condition]:
    """Yield conditions about where mdstorm comes from, and whether anything installs it."""
    is_found = settings.index is not None or "@" in settings.wanted.version
    if not (IS_RELEASED or is_found):
        message = (
            "mdstorm is not on a package index yet: build or fetch its wheel, and pass its path or "
            "URL to --requirement"
        )
        yield Condition("from", message)
    if use.moved and not _is_installed(outcomes, around, contents):
        extras = use.extras - ({"spark"} if use.on_databricks else set())
        extras |= set(settings.wanted.extras)
        named = replace(settings.wanted, extras=tuple(sorted(extras)))
        yield Condition("installed", f'nothing here installs mdstorm: install "{named}"')


def _is_installed(
    outcomes: Iterable[FileOutcome], around: Iterable[Path], contents: ListedFiles
) -> bool:
    """Whether an edited file, or another list in the project, requires mdstorm."""
    edited = any(one.requires and NEW_ROOT.encode() in one.outcome.after for one in outcomes)
    return edited or any(NEW_ROOT in required_names(contents[path].documents) for path in around)


def _remaining_mentions(outcomes: Iterable[FileOutcome]) -> Iterator[Condition]:
    """Yield one condition for each file with remaining mentions of Petastorm."""
    for one in outcomes:
        left = [found for found in one.outcome.findings if _is_mention(found)]
        if left:
            places = sorted({(found.cell or 0, found.line) for found in left})
            (cell, line), more = places[0], len(places) - 1
            rest = f", and on {more} more line{'s' * (more > 1)}" if more else ""
            yield Condition(
                "mentions", f"Petastorm is still mentioned here{rest}", one.path, line, cell or None
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
