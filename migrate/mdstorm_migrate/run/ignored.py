"""Files that git ignores: the rules of ``.gitignore``, except for files that git tracks.

Outside of a repository, nothing is ignored: files from a repository's archive were tracked there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing pathspec takes a third of this package's import time
    from pathspec.pattern import Pattern

#: Environment variables that git sets for a hook, and that may point to a different repository.
_HOOK_VARIABLES = frozenset({"GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE"})


@dataclass(frozen=True)
class IgnoreRules:
    """Rules for the entries of one directory.

    Attributes
    ----------
    files : sequence of IgnoreFile
        The rules of each ``.gitignore``, the innermost last.
    tracked : TrackedFiles
        Files that are never ignored, even if a rule matches them.
    only_tracked : bool
        Whether the directory is itself ignored, and only entered for files that git tracks.
    in_repository : bool
        Whether the directory is in a git repository; otherwise, there are no rules.
    """

    files: Sequence[IgnoreFile]
    tracked: TrackedFiles
    only_tracked: bool = False
    in_repository: bool = True

    def ignore(self, path: Path, is_directory: bool) -> bool:
        """Whether an entry is ignored; `path` is absolute."""
        return self._is_matched(path, is_directory) and path not in self.tracked

    def within(self, directory: Path) -> IgnoreRules:
        """Return the rules for a directory's entries. A nested repository has its own rules."""
        if _is_repository(directory):
            return IgnoreRules(read_ignore_file(directory), TrackedFiles(directory))
        if not self.in_repository:
            return self
        files = [*self.files, *read_ignore_file(directory)]
        is_ignored = self._is_matched(directory, True) or is_foreign(directory)
        return IgnoreRules(files, self.tracked, is_ignored)

    def tracks(self, path: Path) -> bool:
        """Whether git tracks a file, or anything under a directory; `path` is absolute."""
        return self.in_repository and path in self.tracked

    def _is_matched(self, path: Path, is_directory: bool) -> bool:
        """Whether the rules ignore a path; the innermost file with a matching pattern decides."""
        verdicts = (file.verdict(path, is_directory) for file in reversed(self.files))
        found = next((verdict for verdict in verdicts if verdict is not None), False)
        return self.only_tracked or found


def rules_of(root: Path) -> IgnoreRules:
    """Return the rules for the entries of the directory where a walk begins.

    The rules of the directories above, up to the root of the repository, also apply, except for
    rules that ignore `root` itself.
    """
    above: list[IgnoreFile] = []
    for directory in (root, *root.parents):
        above = read_ignore_file(directory) + above
        if _is_repository(directory):
            return IgnoreRules(above, TrackedFiles(root))
    return IgnoreRules([], TrackedFiles(root), in_repository=False)


def _is_repository(directory: Path) -> bool:
    return os.path.exists(directory / ".git")  # also False where access is denied


@dataclass(frozen=True)
class IgnoreFile:
    """The patterns of one ``.gitignore``; the last pattern that matches decides."""

    directory: Path
    patterns: Sequence[Pattern]

    def verdict(self, path: Path, is_directory: bool) -> bool | None:
        """Return whether `path` is ignored; None if no pattern matches."""
        relative = path.relative_to(self.directory).as_posix()
        for pattern in reversed(self.patterns):
            if _matches_itself(pattern, relative, is_directory):
                return pattern.include
        return None


def read_ignore_file(directory: Path) -> list[IgnoreFile]:
    """Return a directory's ``.gitignore`` in a list, which is empty if the file has no patterns."""
    try:
        text = (directory / ".gitignore").read_text("utf-8-sig", errors="replace")
    except OSError:
        return []
    patterns = list(_patterns(text))
    return [IgnoreFile(directory, patterns)] if patterns else []


#: The notation for everything inside a directory. In old versions of pathspec, it also matches the
#: directory itself, unlike the longer notation ``/**/*``.
_INSIDE = re.compile(r"/\*\*(?=\s*$)")


def _patterns(text: str) -> Iterator[Pattern]:
    from pathspec import GitIgnoreSpec

    for line in text.split("\n"):
        try:
            found = GitIgnoreSpec.from_lines([_INSIDE.sub("/**/*", line)]).patterns
        except ValueError:  # git also skips invalid patterns
            continue
        yield from (pattern for pattern in found if pattern.include is not None)


def _matches_itself(pattern: Pattern, path: str, is_directory: bool) -> bool:
    """Whether a pattern matches a path itself, rather than a directory above it.

    The only group in pathspec's regular expressions is the slash after a matched directory.
    """
    found = pattern.match_file(path)
    if found is not None and found.match.lastgroup is None:
        return True
    found = pattern.match_file(f"{path}/") if is_directory else None
    if found is None or found.match.lastgroup is None:
        return False
    return bool(found.match.end(found.match.lastgroup) == len(path) + 1)


@dataclass(eq=False)
class TrackedFiles:
    """The files that git tracks under a directory; none without git or a repository.

    Git is called once, on the first lookup.

    Attributes
    ----------
    directory : Path
    failure : str or None
        Why git failed.
    """

    directory: Path
    failure: str | None = None

    def __contains__(self, path: Path) -> bool:
        """Whether git tracks a file, or anything under a directory; `path` is absolute."""
        try:
            return path.relative_to(self.directory).as_posix() in self._paths
        except ValueError:
            return False

    @cached_property
    def _paths(self) -> frozenset[str]:
        """The tracked files and the directories that contain them, relative to `directory`."""
        # A repository's configuration may set a command that git runs to watch files; the first
        # setting disables it. Without the second, git refuses repositories that belong to other
        # users, as in containers.
        settings = ["-c", "core.fsmonitor=false", "-c", "safe.directory=*"]
        command = ["git", *settings, "ls-files", "-z"]
        variables = {k: v for k, v in os.environ.items() if k not in _HOOK_VARIABLES}
        try:
            done = subprocess.run(
                command, cwd=self.directory, env=variables, capture_output=True, check=False
            )
        except OSError as error:
            self.failure = f"git cannot be run: {error.strerror}"
            return frozenset()
        if done.returncode != 0:
            self.failure = os.fsdecode(done.stderr).strip().partition("\n")[0]
        files = os.fsdecode(done.stdout).split("\0")[:-1] if done.returncode == 0 else []
        directories = {str(above) for file in files for above in PurePosixPath(file).parents}
        return frozenset([*files, *directories])


#: Directories of third-party code that projects keep in their repositories.
_VENDORED = frozenset({"_vendor", "third_party", "vendor"})
_NAMES = frozenset(
    {
        ".bzr",
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "__pypackages__",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
        *_VENDORED,
    }
)
#: Names of build directories that may contain project code if git tracks it.
_MAY_HOLD_PROJECT_CODE = frozenset({"build", "dist"})


def is_vendored(directory: Path) -> bool:
    """Whether a directory is named like a copy of third-party code."""
    return directory.name in _VENDORED


def may_hold_project_code(directory: Path) -> bool:
    """Whether a foreign directory contains project code if git tracks it.

    A directory with a ``pyvenv.cfg`` is a virtual environment, which nobody commits.
    """
    return directory.name in _MAY_HOLD_PROJECT_CODE or not _has_foreign_name(directory)


def is_foreign(directory: Path) -> bool:
    """Whether a directory contains no project code, judging by its name or a ``pyvenv.cfg``."""
    return _has_foreign_name(directory) or os.path.exists(directory / "pyvenv.cfg")


def _has_foreign_name(directory: Path) -> bool:
    return directory.name in _NAMES or directory.name.endswith(".egg-info")
