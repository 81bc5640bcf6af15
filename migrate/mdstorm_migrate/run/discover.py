"""Which files are looked at."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.base.directories import is_foreign
from mdstorm_migrate.run.ignored import IgnoreFile, glob_to_regex, is_ignored, read_ignore_file
from mdstorm_migrate.sources import find_source

__all__ = ["Skipped", "discover"]

_GENERATED = re.compile(r".*_pb2(_grpc)?\.pyi?")


@dataclass(frozen=True)
class Skipped:
    """Something that is not looked at, though it was found, and why.

    Attributes
    ----------
    path : Path
    reason : str
    is_error : bool
        Whether it should have been read, and could not be.
    """

    path: Path
    reason: str
    is_error: bool = False


def discover(
    paths: Iterable[Path], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Iterator[Path | Skipped]:
    """Yield the files at and below `paths`, each once, in the order of their names.

    A file that is named is always looked at. Below a directory, those are that some source reads
    and that neither ``.gitignore`` nor `exclude` keeps away. Links to directories are not followed.

    Parameters
    ----------
    paths : iterable of Path
        Files and directories.
    include, exclude : sequence of str
        Globs, against the path below the directory given; one without a slash is for names. With
        `include`, only what matches it is looked at.
    """
    seen: set[str] = set()
    walk = _Walk(_globs(include), _globs(exclude))
    for path in paths:
        is_directory = path.is_dir()
        found = walk.below(path) if is_directory else iter([path])
        for one in found:
            if isinstance(one, Skipped):
                yield one
                continue
            skipped = _unreadable(one, named=not is_directory)
            if skipped is not None:
                yield skipped
                continue
            real = os.path.realpath(one)
            if real not in seen:
                seen.add(real)
                yield one


def _unreadable(path: Path, named: bool) -> Skipped | None:
    """Return why a file cannot be looked at; None if it can."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        reason = "a link that leads nowhere" if path.is_symlink() else str(error.strerror)
        return Skipped(path, reason, is_error=True)
    if not stat.S_ISREG(mode):
        return Skipped(path, "not a regular file", is_error=named)
    if named and find_source(path) is None:
        return Skipped(path, "of no kind that can be migrated", is_error=True)
    return None


@dataclass
class _Walk:
    include: Sequence[re.Pattern[str]]
    exclude: Sequence[re.Pattern[str]]

    def below(self, root: Path) -> Iterator[Path | Skipped]:
        """Yield the files below a directory."""
        yield from self._below(root, root, _ignore_files_above(root))

    def _below(
        self, directory: Path, root: Path, ignores: Sequence[IgnoreFile]
    ) -> Iterator[Path | Skipped]:
        own = read_ignore_file(directory / ".gitignore", directory.resolve())
        ignores = [*ignores, own] if own is not None else ignores
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError as error:
            yield Skipped(directory, str(error.strerror), is_error=True)
            return
        here = directory.resolve()
        for entry in entries:
            path = directory / entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if self._is_excluded(path, root) or is_ignored(
                here / entry.name, is_directory, ignores
            ):
                continue
            if is_directory:
                if not is_foreign(path):
                    yield from self._below(path, root, ignores)
            elif entry.is_symlink() and _is_directory(path):
                yield Skipped(path, "links to directories are not followed")
            elif self._is_wanted(path, root):
                yield path

    def _is_excluded(self, path: Path, root: Path) -> bool:
        relative = path.relative_to(root).as_posix()
        return any(pattern.fullmatch(relative) for pattern in self.exclude)

    def _is_wanted(self, path: Path, root: Path) -> bool:
        relative = path.relative_to(root).as_posix()
        if self.include and not any(one.fullmatch(relative) for one in self.include):
            return False
        return find_source(path) is not None and not _GENERATED.fullmatch(path.name)


def _is_directory(link: Path) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a link to itself
        return False


def _globs(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    """Return what matches the globs, and all that is below a directory that matches."""
    return [
        re.compile(
            rf"(?:{glob_to_regex(pattern if '/' in pattern else f'**/{pattern}').pattern})(?:/.*)?"
        )
        for pattern in (one.rstrip("/") for one in patterns)
        if pattern
    ]


def _ignore_files_above(root: Path) -> list[IgnoreFile]:
    """Return the rules that apply to a directory from above, up to the root of its repository."""
    found = []
    for directory in root.resolve().parents:
        here = read_ignore_file(directory / ".gitignore", directory)
        found += [here] if here is not None else []
        if (directory / ".git").exists():
            return found[::-1]
    return []
