"""Conditions to meet before migrated code runs: the report's section "Before you run it"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.environment import IS_RELEASED, Condition, conditions_of, required
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.old_pyarrow import old_conditions
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.seen import Seen
from mdstorm_migrate.run.together import Examined

#: Libraries that Petastorm needed in old versions, or that have changed since.
_NEWER = frozenset({"lightning", "numpy", "pandas", "pyspark", "pytorch_lightning", "tensorflow"})
_LIBRARIES = (
    "installing mdstorm may upgrade other libraries: `ruff check --select NPY` finds what NumPy "
    "has removed; for pandas, PySpark, TensorFlow and Lightning, read their release notes"
)
#: Rules that report unedited lines that mention Petastorm.
_MENTION_RULES = frozenset({"PM001", "PM410"})
#: Folders whose files belong to the parent folder.
_SUBFOLDERS = frozenset({"ci", "conda", "deploy", "docker", "env", "envs", "jobs", "requirements"})


def before_running(examined: Examined, settings: Settings) -> list[Condition]:
    """Return the conditions to meet before a run's files are used: first, what breaks."""
    outcomes = [one for one in examined.outcomes if one.has_results]
    facts = examined.project.facts
    seen = {path: one.seen for path, one in facts.items()}
    seen |= {one.path: one.seen for one in examined.outcomes}
    is_moved = any(one.moved for one in facts.values())
    is_new = any(one.changed or one.after.needs for one in outcomes)  # or this was read before
    conditions = [*_installation(examined, settings)] if is_new else []
    conditions += [*_misfits(examined, seen), *_environment(examined, seen)]
    imports = {name.partition(".")[0] for one in facts.values() for name in one.imports}
    if is_new and is_moved and imports & _NEWER:
        conditions.append(Condition("libraries", _LIBRARIES))
    if is_moved:
        conditions += old_conditions({path: one.old_uses for path, one in seen.items()})
    conditions += _remaining_mentions(outcomes) if is_new else ()
    conditions += _streaming_uses(seen) if settings.library != "streaming" else ()
    return sorted(dict.fromkeys(conditions), key=lambda one: not one.breaks)


def _streaming_uses(seen: Mapping[Path, Seen]) -> Iterator[Condition]:
    """Yield a condition for the first import of MosaicML Streaming, which the run keeps."""
    for path, one in sorted(seen.items()):
        if one.streaming is not None:
            what = "MosaicML Streaming is imported; `mdstorm migrate --from streaming` replaces it"
            yield Condition("streaming", what, path, one.streaming)
            return


def _installation(examined: Examined, settings: Settings) -> Iterator[Condition]:
    """Yield conditions about where mdstorm comes from, and whether anything installs it."""
    is_found = settings.index is not None or "@" in settings.wanted.version
    if not (IS_RELEASED or is_found):
        message = (
            "mdstorm is not on a package index yet: build or fetch its wheel, and pass its path or "
            "URL to --requirement"
        )
        yield Condition("from", message)
    facts = examined.project.facts.values()
    if any(one.moved for one in facts) and not any(NEW_ROOT in one.installs for one in facts):
        extras = frozenset().union(*(one.extras for one in facts))
        extras -= {"spark"} if any(one.on_databricks for one in facts) else set()
        extras |= set(settings.wanted.extras)
        named = replace(settings.wanted, extras=tuple(sorted(extras)))
        yield Condition("installed", f'nothing here installs mdstorm: install "{named}"')


def _misfits(examined: Examined, seen: Mapping[Path, Seen]) -> Iterator[Condition]:
    """Yield what does not fit together in the project, at the first mention of a library.

    An installer with a requirement that a person must change has a finding about it already.
    """
    found = ((file.path, one) for file in examined.outcomes for one in file.outcome.findings)
    told = {path for path, one in found if one.cls == "manual" and one.topic == "install"}
    for one in examined.violations:
        if one.path not in told:
            yield Condition("misfit", one.message, one.path, seen[one.path].mention)


def _environment(examined: Examined, seen: Mapping[Path, Seen]) -> Iterator[Condition]:
    """Yield versions of Python and of libraries that do not fit, where mdstorm is used."""
    project, facts = examined.project, examined.project.facts
    users = [path for path, one in facts.items() if one.moved]
    installing = [part for part in project.installers if NEW_ROOT in project.installed(part)]
    installers = dict.fromkeys(part.path for part in installing)
    naming = {one.path for path in installers for one in project.installing(path)}
    lists = [path for path in installers if not is_code(path)]
    serving = _Folders(users, lists)
    extras = (extra for one in facts.values() for extra in one.extras | one.required_extras)
    # s3fs and gcsfs require the release of fsspec with their own number.
    needed = required(frozenset(extras) | {"gcs", "s3"})
    stating = sorted(path for path, one in seen.items() if one.versions)
    for path in stating:
        if path in installers or path in naming or serving.has(path):
            stay = {one.number for one in project.parts_of(path) if project.stays(one)}
            launches = is_code(path) and path not in installers
            stated = (one for one in seen[path].versions if not one.is_apart)
            versions = (one for one in stated if one.part not in stay)
            found = (one for one in versions if one.subject == "python" or not launches)
            yield from conditions_of(path, found, needed)


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
