"""Migrate the files in a run together, and write groups of files completely or not at all."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

from mdstorm_migrate.base.document import Source
from mdstorm_migrate.base.needs import ALONE, Needs, Surroundings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.run.code_use import imports_streaming
from mdstorm_migrate.run.discover import LARGEST, LARGEST_TEXT, Skipped, code_in_skipped, is_code
from mdstorm_migrate.run.migration import is_relevant, migrate_bytes
from mdstorm_migrate.run.needs import needs_of
from mdstorm_migrate.run.outcome import FileOutcome, Outcome, Problem, Settings
from mdstorm_migrate.run.pool import map_files
from mdstorm_migrate.run.walk import walk_of
from mdstorm_migrate.sources import find_source


def run(
    found: Iterable[Path | Skipped],
    settings: Settings,
    *,
    write: bool = False,
    backup: str | None = None,
    jobs: int = 1,
    others: Sequence[Path] = (),
) -> Iterator[FileOutcome]:
    """Yield the outcomes of files with edits, findings or problems, in the order of `found`.

    If a file cannot be read, parsed or written, its outcome has a problem; no error is raised.

    Parameters
    ----------
    found : iterable of Path or Skipped
        The files; skipped paths are ignored.
    settings : Settings
    write : bool
        Whether to write the files.
    backup : str, optional
        The suffix to add to the name of a copy of the old file.
    jobs : int
        Number of processes.
    others : sequence of Path
        Other files of the project, which are read but never changed.
    """
    found = list(found)
    paths = [one for one in found if isinstance(one, Path)]
    others = [*others, *code_in_skipped(found)]
    outcomes = [one for one in examine(paths, settings, jobs, others) if one.has_results]
    yield from _write_all(outcomes, backup) if write else outcomes


def examine(
    paths: Sequence[Path], settings: Settings, jobs: int = 1, others: Sequence[Path] = ()
) -> list[FileOutcome]:
    """Return the outcome for each file that mentions Petastorm; files may affect each other.

    Each file is examined as if it were alone. Files that use Petastorm through other files, files
    that others affect, and files that require or install packages, are examined again.
    """
    alone = {
        one.path: one for one in map_files(partial(examine_file, settings=settings), paths, jobs)
    }
    walk = walk_of(list(alone.values()), paths, jobs)
    for path, given in walk.reached().items():
        if again := examine_file(path, settings, Surroundings(given=given)):
            alone[path] = replace(again, given=given)
    walk.add(alone.values())
    around = walk.surroundings()
    outcomes = [alone[path] for path in paths if path in alone]
    found = {}
    for one in outcomes:
        context = around[one.path]
        again = examine_file(one.path, settings, context) if _is_affected(context, one) else None
        found[one.path] = replace(again or one, group=context.group, given=one.given)
    needed = _needs(list(found.values()), paths, settings, jobs, others)
    needed |= _streaming_needs(list(found.values()), settings)
    for path, needs in needed.items():
        context = around[path]
        if again := examine_file(path, settings, context, needs):
            found[path] = replace(again, group=context.group, given=context.given)
    return [found[path] for path in paths if path in found]


def migrate_alone(
    data: bytes, path: PurePath | None, source: Source, settings: Settings
) -> Outcome:
    """Return the outcome of a file that is migrated alone.

    A notebook's code determines what its install commands must install.
    """
    outcome = migrate_bytes(data, path, source, settings)
    found = FileOutcome(Path(path or ""), outcome)
    if path is None or not (found.requires and is_code(found.path)):
        return outcome
    needs = replace(needs_of([found], [found.path], settings)[found.path], is_unused=False)
    return migrate_bytes(data, path, source, settings, needs=needs)


def _needs(
    outcomes: Sequence[FileOutcome],
    paths: Sequence[Path],
    settings: Settings,
    jobs: int,
    others: Sequence[Path],
) -> dict[Path, Needs]:
    """Return the needs of the files that require packages."""
    if not others:
        return needs_of(outcomes, paths, settings, jobs)
    named = {path.resolve(): path for path in paths}
    around = [path for path in map(Path.resolve, others) if path not in named]
    resolved = [replace(one, path=one.path.resolve()) for one in outcomes]
    needed = needs_of(resolved, [*named, *around], settings, jobs)
    return {named[path]: needs for path, needs in needed.items()}


#: Rules whose edits make code or configuration use mdstorm instead of MosaicML Streaming.
_MOVING = frozenset({"PM201", "PM203"})


def _streaming_needs(outcomes: Sequence[FileOutcome], settings: Settings) -> dict[Path, Needs]:
    """Return the needs of files that require MosaicML Streaming, if a file still imports it."""
    requiring = [one.path for one in outcomes if "PM202" in _rules(one)]
    importers = (one.path for one in outcomes if _imports_streaming(one))
    importer = next(importers, None) if requiring else None
    if importer is None:
        return {}
    edits = (edit for one in outcomes for edit in one.outcome.edits)
    moved = any(edit.rule in _MOVING and edit.cls != "manual" for edit in edits)
    needs = Needs(settings.wanted, settings.index, moved=moved, streaming_importer=str(importer))
    return dict.fromkeys(requiring, needs)


def _rules(one: FileOutcome) -> set[str]:
    edits, findings = one.outcome.edits, one.outcome.findings
    return {edit.rule for edit in edits} | {found.rule for found in findings}


def _imports_streaming(one: FileOutcome) -> bool:
    """Whether a file imports MosaicML Streaming after its migration."""
    return is_code(one.path) and imports_streaming(one) and not is_in_project(one.path, "streaming")


def _is_affected(around: Surroundings, one: FileOutcome) -> bool:
    """Whether other files change the outcome of a file."""
    rules = {edit.rule for edit in one.outcome.edits}
    if around.waits_for is not None or around.shares_root:
        return True
    return "PM103" in rules and (around.stays or around.names) is not None


def _write_all(outcomes: Sequence[FileOutcome], backup: str | None) -> Iterator[FileOutcome]:
    """Write the files and yield their outcomes; a group is written completely or not at all."""
    refused = dict(_write_errors(outcomes))
    for one in outcomes:
        reason = refused.get(str(one.path))
        other = next((path for path in one.group if path in refused), None)
        if not one.changed:
            yield one
        elif reason is not None:
            yield _not_written(one, reason)
        elif other is not None:
            yield _not_written(one, f"{other}, which must move together with it, cannot be written")
        else:
            yield _write(one, backup)


def _write_errors(outcomes: Iterable[FileOutcome]) -> Iterator[tuple[str, str]]:
    """Yield the files that cannot be written, with the reasons."""
    for one in outcomes:
        if one.changed:
            try:
                check_writable(one.path, one.outcome.before)
            except WriteError as error:
                yield str(one.path), str(error)


def _write(one: FileOutcome, backup: str | None) -> FileOutcome:
    try:
        write_file(one.path, one.outcome.before, one.outcome.after, backup)
    except WriteError as error:
        return _not_written(one, str(error))
    return replace(one, written=True)


def _not_written(one: FileOutcome, reason: str) -> FileOutcome:
    before, problem = one.outcome.before, Problem(f"not written: {reason}")
    problems = [*one.outcome.problems, problem]
    return replace(one, outcome=replace(one.outcome, after=before, edits=(), problems=problems))


def examine_file(
    path: Path, settings: Settings, around: Surroundings = ALONE, needs: Needs | None = None
) -> FileOutcome | None:
    """Return the outcome for a file, or None if no source reads it or it never mentions Petastorm.

    If the file cannot be read or parsed, its outcome has a problem; no error is raised.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_TEXT and find_source(path) is None:
            return None
        if size > LARGEST:
            reason = f"larger than {LARGEST >> 20} MiB"
            return _failed(path, reason) if _is_mentioned_in(path) else None
        data = path.read_bytes()
    except OSError as error:
        if path.is_symlink() and not path.exists():
            return None  # a broken link
        return _failed(path, error.strerror or str(error))
    if around.given is None and not is_relevant(data, settings):
        return None
    source = find_source(path, data)
    if source is None:
        return None
    try:
        outcome = migrate_bytes(data, path, source, settings, around, needs)
    except Exception as error:  # a bug in mdstorm affects this file, not the run
        return _failed(path, f"internal error, please report it: {error!r}")
    return FileOutcome(path, outcome)


def _is_mentioned_in(path: Path) -> bool:
    """Search a large file for Petastorm's name without reading the file into memory."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        return mapped.find(OLD_ROOT.encode()) >= 0


def _failed(path: Path, reason: str) -> FileOutcome:
    return FileOutcome(path, Outcome(b"", b"", problems=[Problem(reason)]))


class WriteError(OSError):
    """A file that was not written. The message is the reason."""


def write_file(path: Path, before: bytes, after: bytes, backup: str | None = None) -> None:
    """Replace the content of a file; for a link, replace the content of its target.

    The new file has the same mode and owner as the old file.

    Parameters
    ----------
    path : Path
    before : bytes
        The content that the file must still have.
    after : bytes
        The new content.
    backup : str, optional
        The suffix to add to the name of a copy of the old file.

    Raises
    ------
    WriteError
        If the file is read-only, has changed in the meantime, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    status = check_writable(target, before)
    try:
        if backup:
            _replace(target.with_name(target.name + backup), before, status)
        _replace(target, after, status)
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from error


def check_writable(path: Path, before: bytes) -> os.stat_result:
    """Check that a file is writable and unchanged, and return its status.

    Raises
    ------
    WriteError
        If the file is read-only, has changed in the meantime, or cannot be read.
    """
    try:
        status, data = path.stat(), path.read_bytes()
    except OSError as error:
        raise WriteError(error.strerror or str(error)) from error
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise WriteError("the file is read-only")
    if data != before:
        raise WriteError("the file was changed by another program in the meantime")
    return status


def _replace(target: Path, data: bytes, status: os.stat_result) -> None:
    """Write a temporary file next to `target` and rename it once it is complete."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if hasattr(os, "chown"):
            with contextlib.suppress(PermissionError):  # only root can change the owner
                os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, stat.S_IMODE(status.st_mode))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
