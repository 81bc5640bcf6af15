"""Find the files to scan at and under the given paths."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mdstorm_migrate.base.document import is_setup_script
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.run import ignored
from mdstorm_migrate.sources import HEAD, find_source
from mdstorm_migrate.sources.plain import may_be_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

#: Size in bytes above which files are not read.
LARGEST = 64 << 20
#: Size in bytes above which files of unknown kinds are skipped.
LARGEST_TEXT = 1 << 20
#: Suffixes of code, whose imports are taken into account.
CODE = frozenset({".py", ".pyi", ".pyw", ".ipynb"})
_GENERATED = re.compile(r".*_pb2(_grpc)?\.pyi?")
#: The first line of the recorder, the program that `mdstorm compare --recorder` prints.
_RECORDER = b'"""Record what a program reads through Petastorm or mdstorm,'

#: The end of the names of the recordings that the recorder writes.
_RECORDING = ".recording.json"


class GlobError(ValueError):
    """An invalid pattern in `include` or `exclude`."""


def is_code(path: Path) -> bool:
    """Whether a file is code; a ``setup.py`` counts as a list of requirements instead."""
    return path.suffix in CODE and not is_setup_script(path)


@dataclass(frozen=True)
class Skipped:
    """A path that was found but skipped, and the reason.

    Attributes
    ----------
    path : Path
    reason : str
    is_error : bool
        Whether the path should have been read but could not be.
    files : tuple of Path
        Code under the path that mentions Petastorm, which requirements must serve.
    """

    path: Path
    reason: str
    is_error: bool = False
    files: tuple[Path, ...] = ()


def discover(
    paths: Iterable[Path], include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Iterator[Path | Skipped]:
    """Yield the files at and under `paths`, each once, sorted by name.

    A file that is given by name is always yielded. Under a directory, all files that a source can
    read are yielded, unless ``.gitignore`` or `exclude` excludes them; files that git tracks are
    never ignored. Links to directories are not followed.

    Parameters
    ----------
    paths : iterable of Path
        Files and directories.
    include, exclude : sequence of str
        Globs as in ``.gitignore``, matched against the path within the given directory; a glob
        without a slash matches names. With `include`, only matching files are yielded.

    Raises
    ------
    GlobError
        If `include` or `exclude` has an invalid pattern. Raised immediately.
    """
    return _discover(paths, _Walk(_globs(include) if include else None, _globs(exclude)))


def project_of(named: Iterable[Path]) -> list[Path]:
    """Return the files in the repositories that contain the given requirement files.

    The needs of a requirement list depend on code that was not given; outside of a repository, a
    project has no known root.
    """
    lists = [path.resolve() for path in named if path.is_file() and not is_code(path)]
    roots = dict.fromkeys(filter(None, map(ignored.repository_of, lists)))
    return [one for one in discover(roots) if isinstance(one, Path)]


def code_in_skipped(found: Iterable[Path | Skipped]) -> list[Path]:
    """Return the code in skipped directories that mentions Petastorm."""
    return [file for one in found if isinstance(one, Skipped) for file in one.files]


def _discover(paths: Iterable[Path], walk: _Walk) -> Iterator[Path | Skipped]:
    """Yield the files for `discover`, which has checked the patterns."""
    seen: set[str] = set()
    for path in paths:
        is_directory = path.is_dir()
        found = walk.below(path, path) if is_directory else iter([path])
        for one in found:
            if isinstance(one, Skipped):
                yield one
                continue
            skipped = _unreadable(one, named=not is_directory)
            if skipped is not None:
                yield skipped
                continue
            if is_directory and (_is_recorder(one) or one.name.endswith(_RECORDING)):
                continue
            real = os.path.realpath(one)
            if real not in seen:
                seen.add(real)
                yield one


def _unreadable(path: Path, named: bool) -> Skipped | None:
    """Return the reason why a file cannot be read, or None if it can be read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink():  # common in data folders
            return Skipped(path, "a broken link", is_error=named)
        return Skipped(path, str(error.strerror), is_error=True)
    if not stat.S_ISREG(mode):
        return Skipped(path, "not a regular file", is_error=named)
    if named and path.stat().st_size and find_source(path, head_of(path)) is None:
        return Skipped(path, "not a kind of file that can be migrated", is_error=True)
    return None


@dataclass
class _Walk:
    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec

    def below(self, root: Path, directory: Path) -> Iterator[Path | Skipped]:
        """Yield the files under a directory; globs are matched against paths within `root`."""
        listing = ignored.list_files(directory)
        if listing.failure is not None:
            reason = f"git cannot list its files, so nothing is ignored: {listing.failure}"
            yield Skipped(directory, reason)
        for name, reason in listing.unreadable:
            yield Skipped(directory / name, reason, is_error=True)
        kind_of = cache(ignored.foreign_kind)
        vendored: dict[Path, list[Path]] = {}
        for name in sorted(listing.paths, key=lambda name: name.split("/")):
            path = directory / name
            above = path.parents[: len(Path(name).parents) - 1]
            foreign = [one for one in reversed(above) if kind_of(one) is not None]
            closed = [one for one in foreign if kind_of(one) != "output"]
            relative = path.relative_to(root).as_posix()
            if self.exclude.match_file(relative) or (foreign and not listing.paths[name]):
                continue
            if closed:
                if is_code(path):
                    vendored.setdefault(closed[0], []).append(path)
            elif path.is_symlink() and _is_directory(path):
                yield Skipped(path, "links to directories are not followed")
            elif path.is_dir():  # a repository
                yield from self.below(root, path)
            elif self._is_wanted(path, relative):
                yield path
        for folder, files in vendored.items():
            yield from _skipped_vendored(folder, files)

    def _is_wanted(self, path: Path, relative: str) -> bool:
        if self.include is not None and not self.include.match_file(relative):
            return False
        if find_source(path) is not None:
            return not _GENERATED.fullmatch(path.name)
        return may_be_text(path)


def _is_recorder(path: Path) -> bool:
    return path.suffix == ".py" and head_of(path).startswith(_RECORDER)


def _skipped_vendored(directory: Path, code: Iterable[Path]) -> Iterator[Skipped]:
    """Yield a skipped directory of third-party code if code in it mentions Petastorm."""
    files = tuple(path for path in code if _mentions_petastorm(path))
    if files:
        more = f" and {len(files) - 1} more" if files[1:] else ""
        where = f"{files[0].relative_to(directory)}{more}"
        reason = f"vendored code is not migrated; Petastorm is mentioned in {where}"
        yield Skipped(directory, reason, files=files)


def _mentions_petastorm(path: Path) -> bool:
    try:
        return OLD_ROOT.encode() in path.read_bytes()
    except OSError:
        return False


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, or no bytes if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


def _is_directory(link: Path) -> bool:
    try:
        return link.is_dir()
    except OSError:  # such as a link to itself
        return False


def _globs(patterns: Sequence[str]) -> GitIgnoreSpec:
    """Return a matcher for the globs, which also matches everything under a matching directory."""
    from pathspec import GitIgnoreSpec

    for pattern in patterns:
        try:
            GitIgnoreSpec.from_lines([pattern])
        except ValueError:
            raise GlobError(f"{pattern!r} is not a glob") from None
    return GitIgnoreSpec.from_lines(patterns)
