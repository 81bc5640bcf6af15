"""The files of a project: in a git repository, those that git tracks or does not ignore.

Outside of a repository, nothing is ignored: files from a repository's archive were tracked there.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

#: Environment variables that git sets for a hook, and that may point to a different repository.
_HOOK_VARIABLES = frozenset({"GIT_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_WORK_TREE"})
_UNREADABLE = re.compile(r"could not open directory '(.*?)/?': (.*)")


@dataclass
class Listing:
    """The files under a directory, except for ignored ones.

    Attributes
    ----------
    paths : dict of str to bool
        Paths relative to the directory, and whether git tracks them, as it is assumed outside of a
        repository. Links to directories and repositories inside the directory are listed, but not
        what they contain.
    unreadable : list of (str, str)
        Directories that cannot be read, with the reasons.
    failure : str or None
        Why git could not list the files of a repository; then nothing is ignored.
    """

    paths: dict[str, bool] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    failure: str | None = None


def list_files(directory: Path) -> Listing:
    """Return the files under a directory. Rules that ignore the directory itself do not apply."""
    real = directory.resolve()
    top = repository_of(real)
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
    listing = Listing()
    for path, reason in _UNREADABLE.findall(errors):  # the path is relative to the repository
        listing.unreadable.append((os.path.relpath(top / path, real), reason))
    for entry in os.fsdecode(done.stdout).split("\0")[:-1]:
        tag, path = entry[0], entry[2:].removesuffix("/")
        if os.path.lexists(directory / path):
            listing.paths[path] = tag != "?"
    return listing


def uncommitted_in(path: Path) -> int:
    """Return how many files at or under a path have changes that are not committed, 0 without git.

    Files that git does not track do not count.
    """
    folder = path if path.is_dir() else path.parent
    if repository_of(folder.resolve()) is None:
        return 0
    try:
        done = _git(folder, "status", "--porcelain", "-z", "--untracked-files=no", "--", ".")
    except OSError:
        return 0  # git cannot be run, which the listing of the files has reported
    return done.stdout.count(b"\0")


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
    listing = Listing(failure=failure)

    def note(error: OSError) -> None:
        path = os.path.relpath(error.filename, root)
        listing.unreadable.append((path, str(error.strerror)))

    for folder, directories, files in os.walk(root, onerror=note):
        paths = {name: Path(folder, name) for name in directories}
        left_out = [
            name for name, path in paths.items() if path.is_symlink() or _is_repository(path)
        ]
        for name in (*files, *left_out):
            listing.paths[os.path.relpath(os.path.join(folder, name), root)] = True
        directories[:] = [
            name
            for name, path in paths.items()
            if name not in left_out and foreign_kind(path) in (None, "vendored")
        ]
    return listing


def repository_of(path: Path) -> Path | None:
    """Return the nearest repository at or above an absolute path."""
    return next(filter(_is_repository, (path, *path.parents)), None)


def _is_repository(directory: Path) -> bool:
    return os.path.exists(directory / ".git")  # also False where access is denied


#: The kinds of directories whose files are not migrated. If git tracks a file in ``output``, it is
#: migrated nevertheless; if it tracks code in the others, requirements must serve this code.
#: Outside of a repository, only ``vendored`` directories hold such code.
Foreign: TypeAlias = Literal["tools", "vendored", "output"]

_FOREIGN: dict[str, Foreign] = {
    **dict.fromkeys(
        (
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
            "node_modules",
            "site-packages",
            "venv",
        ),
        "tools",
    ),
    **dict.fromkeys(("_vendor", "third_party", "vendor"), "vendored"),
    **dict.fromkeys(("build", "dist"), "output"),
}


def foreign_kind(directory: Path) -> Foreign | None:
    """Return the kind of a directory without project code, or None if it may hold project code.

    A directory with a ``pyvenv.cfg`` is a virtual environment, which nobody commits.
    """
    if directory.name.endswith(".egg-info"):
        return "tools"
    is_environment = os.path.exists(directory / "pyvenv.cfg")
    return _FOREIGN.get(directory.name, "output" if is_environment else None)
