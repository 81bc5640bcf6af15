"""Rules of ``.gitignore`` files: which paths git would not look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["IgnoreFile", "glob_to_regex", "is_ignored", "read_ignore_file"]


@dataclass(frozen=True)
class _Pattern:
    regex: re.Pattern[str]
    is_negative: bool
    only_directories: bool


@dataclass(frozen=True)
class IgnoreFile:
    """One file of rules, which apply below its directory; of several that match, the last does."""

    directory: Path
    patterns: Sequence[_Pattern]

    def verdict(self, path: Path, is_directory: bool) -> bool | None:
        """Return whether `path` is ignored; None if no rule speaks of it."""
        try:
            relative = path.relative_to(self.directory).as_posix()
        except ValueError:
            return None
        for pattern in reversed(self.patterns):
            if pattern.only_directories and not is_directory:
                continue
            if pattern.regex.fullmatch(relative):
                return not pattern.is_negative
        return None


def read_ignore_file(path: Path, directory: Path) -> IgnoreFile | None:
    """Return the rules in a file for what is below `directory`; None if there are none."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return None
    patterns = [found for line in text.splitlines() if (found := _parse(line)) is not None]
    return IgnoreFile(directory, patterns) if patterns else None


def is_ignored(path: Path, is_directory: bool, files: Sequence[IgnoreFile]) -> bool:
    """Whether a path is ignored; of `files`, the innermost one that speaks of it counts."""
    for file in reversed(files):
        verdict = file.verdict(path, is_directory)
        if verdict is not None:
            return verdict
    return False


def _parse(line: str) -> _Pattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    is_negative = line.startswith("!")
    line = line[1:] if is_negative else line.removeprefix("\\")
    only_directories = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    # Without a slash in it, a pattern speaks of names at any depth.
    anchored = line.removeprefix("/") if "/" in line else f"**/{line}"
    return _Pattern(glob_to_regex(anchored), is_negative, only_directories)


def glob_to_regex(pattern: str) -> re.Pattern[str]:
    """Return what matches the paths of a glob in which ``**`` stands for any directories."""
    parts = []
    for part in PurePosixPath(pattern).parts:
        parts.append(r"(?:[^/]+/)*" if part == "**" else _part_to_regex(part) + "/")
    # What ends in ** matches everything below, else the last slash is none.
    whole = "".join(parts)
    return re.compile(rf"{whole}[^/]+" if pattern.endswith("**") else whole.removesuffix("/"))


def _part_to_regex(part: str) -> str:
    """Return what matches one name."""
    found, position = [], 0
    for match in re.finditer(r"\*+|\?|\[(!?)(\]?[^\]]*)\]|\\(.)", part):
        found.append(re.escape(part[position : match.start()]))
        token = match.group()
        if token[0] == "*":
            found.append("[^/]*")
        elif token == "?":
            found.append("[^/]")
        elif token[0] == "[":
            inside = match[2].replace("\\", r"\\").replace("]", r"\]").replace("[", r"\[")
            found.append(f"[{'^' if match[1] else ''}{inside}]")
        else:
            found.append(re.escape(match[3]))
        position = match.end()
    return "".join([*found, re.escape(part[position:])])
