"""Write files: each atomically, and groups of files completely or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mdstorm_migrate.base.edits import Lines, moved_by
from mdstorm_migrate.run.outcome import FileOutcome, Outcome, Problem, shown


def write_all(outcomes: Sequence[FileOutcome], backup: str | None = None) -> Iterator[FileOutcome]:
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
            what = f"{shown(other, one.path)}, which must move together with it, cannot be written"
            yield _not_written(one, what)
        else:
            yield _write(one, backup)


def _write_errors(outcomes: Iterable[FileOutcome]) -> Iterator[tuple[str, str]]:
    """Yield the files that cannot be written, with the reasons."""
    for one in outcomes:
        if one.changed:
            try:
                check_writable(one.path, one.outcome.before)
            except FileWriteError as error:
                yield str(one.path), str(error)


def _write(one: FileOutcome, backup: str | None) -> FileOutcome:
    try:
        write_file(one.path, one.outcome.before, one.outcome.after, backup)
    except FileWriteError as error:
        return _not_written(one, str(error))
    return replace(one, outcome=_as_written(one.outcome), written=True)


def _as_written(outcome: Outcome) -> Outcome:
    """Return an outcome whose findings have their places in the new file."""
    before, after = (text.removeprefix("\ufeff") for text in outcome.texts())
    lines = Lines(after)
    findings = [moved_by(outcome.edits, before, one, lines) for one in outcome.findings]
    return replace(outcome, findings=findings)


def _not_written(one: FileOutcome, reason: str) -> FileOutcome:
    before, problem = one.outcome.before, Problem(f"not written: {reason}")
    problems = [*one.outcome.problems, problem]
    return replace(one, outcome=replace(one.outcome, after=before, edits=(), problems=problems))


class FileWriteError(OSError):
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
    FileWriteError
        If the file is read-only, has changed in the meantime, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    status = check_writable(target, before)
    try:
        if backup:
            _replace(target.with_name(target.name + backup), before, status)
        _replace(target, after, status)
    except OSError as error:
        raise FileWriteError(error.strerror or str(error)) from error


def check_writable(path: Path, before: bytes) -> os.stat_result:
    """Check that a file is writable and unchanged, and return its status.

    Raises
    ------
    FileWriteError
        If the file is read-only, has changed in the meantime, or cannot be read.
    """
    try:
        status, data = path.stat(), path.read_bytes()
    except OSError as error:
        raise FileWriteError(error.strerror or str(error)) from error
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise FileWriteError("the file is read-only")
    if data != before:
        raise FileWriteError("the file was changed by another program in the meantime")
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
