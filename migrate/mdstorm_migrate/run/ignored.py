"""The files of a project: in a git repository, those that git tracks or does not ignore.

Outside of a repository, nothing is ignored: files from a repository's archive were tracked there.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

#: Environment variables that git sets for a hook, and that may point to a different repository.
_HOOK_VARIABLES = frozenset({"GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE"})
_UNREADABLE = re.compile(r"could not open directory '(.*?)/?': (.*)")


@dataclass
class Listing:
    """The files under a directory, except for ignored ones.

    Attributes
    ----------
    in_repository : bool
    paths : dict of str to bool
        Paths relative to the directory, and whether git tracks them. Links to directories and
        repositories inside the directory are listed, but not what they contain.
    unreadable : list of (str, str)
        Directories that cannot be read, with the reasons.
    failure : str or None
        Why git could not list the files of a repository; then nothing is ignored.
    """

    in_repository: bool
    paths: dict[str, bool] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    failure: str | None = None


def list_files(directory: Path) -> Listing:
    """Return the files under a directory. Rules that ignore the directory itself do not apply."""
    real = directory.resolve()
    top = next(filter(_is_repository, (real, *real.parents)), None)
    if top is None:
        return _walk(directory)
    try:
        done = _git(directory, "ls-files", "-tz", "--cached", "--others", "--exclude-standard")
        is_submodule = done.stdout == b"H ./\0"  # of which git has no files
        is_ignored = not done.stdout and not _git(directory, "check-ignore", "-q", ".").returncode
        if is_submodule or is_ignored:
            return _walk(directory)
    except OSError as error:
        return _walk(directory, f"git cannot be run: {error.strerror}")
    errors = os.fsdecode(done.stderr)
    if done.returncode != 0:
        return _walk(directory, errors.strip().partition("\n")[0])
    listing = Listing(True)
    for path, reason in _UNREADABLE.findall(errors):  # the path is relative to the repository
        listing.unreadable.append((os.path.relpath(top / path, real), reason))
    for entry in os.fsdecode(done.stdout).split("\0")[:-1]:
        tag, path = entry[0], entry[2:].removesuffix("/")
        if os.path.lexists(directory / path):
            listing.paths[path] = tag != "?"
    return listing


def _git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # A repository's configuration may set a command that git runs to watch files; the first setting
    # disables it. Without the second, git refuses repositories that belong to other users, as in
    # containers.
    settings = ["-c", "core.fsmonitor=false", "-c", "safe.directory=*"]
    variables = {k: v for k, v in os.environ.items() if k not in _HOOK_VARIABLES}
    return subprocess.run(
        ["git", *settings, *arguments],
        cwd=directory,
        env={**variables, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )


def _walk(root: Path, failure: str | None = None) -> Listing:
    listing = Listing(False, failure=failure)

    def note(error: OSError) -> None:
        path = os.path.relpath(error.filename, root)
        listing.unreadable.append((path, str(error.strerror)))

    for folder, directories, files in os.walk(root, onerror=note):
        paths = {name: Path(folder, name) for name in directories}
        left_out = [
            name for name, path in paths.items() if path.is_symlink() or _is_repository(path)
        ]
        for name in (*files, *left_out):
            listing.paths[os.path.relpath(os.path.join(folder, name), root)] = False
        directories[:] = [
            name
            for name, path in paths.items()
            if name not in left_out and (not is_foreign(path) or is_vendored(path))
        ]
    return listing


def _is_repository(directory: Path) -> bool:
    return os.path.exists(directory / ".git")  # also False where access is denied


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
