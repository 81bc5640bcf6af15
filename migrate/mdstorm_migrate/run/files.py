"""Examine files, one by one, and count what was found."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdstorm_migrate.base.edits import Topic
from mdstorm_migrate.base.needs import ALONE, Needs, Surroundings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.run.migration import concerns_us, migrate_bytes
from mdstorm_migrate.run.outcome import Outcome, Problem, Settings
from mdstorm_migrate.sources import find_source

#: Larger files are not read, in bytes.
LARGEST = 64 << 20
#: Larger files of unknown kinds are passed over, in bytes.
LARGEST_TEXT = 1 << 20
#: Findings that mean that an import of Petastorm stays, by rule and class.
KEEPING = frozenset(
    {
        ("PM101", "review"),
        ("PM106", "review"),
        ("PM107", "manual"),
        ("PM115", "manual"),
    }
)
#: The rule whose notes are mentions.
_MENTION = "PM001"


@dataclass(frozen=True)
class FileOutcome:
    """What became of a file.

    Attributes
    ----------
    path : Path
        As it was found.
    outcome : Outcome
    written : bool
    group : sequence of str
        Paths of the files that are written together with it, its own included.
    """

    path: Path
    outcome: Outcome
    written: bool = False
    group: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether it would change, or did."""
        return self.outcome.before != self.outcome.after

    @property
    def keeps_petastorm(self) -> bool:
        """Whether it still imports Petastorm."""
        left = (found for found in self.outcome.findings if not found.is_open_todo)
        return any((found.rule, found.cls) in KEEPING for found in left)

    @property
    def has_something_to_say(self) -> bool:
        """Whether there are edits, findings or problems."""
        return bool(self.outcome.edits or self.outcome.findings or self.outcome.problems)

    @property
    def requires(self) -> bool:
        """Whether it requires or installs Petastorm, or did."""
        return "install" in self.topics

    @property
    def topics(self) -> frozenset[Topic]:
        """What its edits and findings depend on the code around for."""
        edits, findings = self.outcome.edits, self.outcome.findings
        topics = [*(one.topic for one in edits), *(one.topic for one in findings)]
        return frozenset(topic for topic in topics if topic is not None)


def examine_file(
    path: Path, settings: Settings, around: Surroundings = ALONE, needs: Needs | None = None
) -> FileOutcome | None:
    """Return what would become of one file; None if it is not ours or does not mention Petastorm.

    A file that cannot be read or parsed is a problem of its outcome, never an error.
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
            return None  # a link to nothing
        return _failed(path, error.strerror or str(error))
    if not concerns_us(data):
        return None
    source = find_source(path, data)
    if source is None:
        return None
    try:
        outcome = migrate_bytes(data, path, source, settings, around, needs)
    except Exception as error:  # a mistake of ours costs this file, not the run
        return _failed(path, f"internal error, please report it: {error!r}")
    return FileOutcome(path, outcome)


def _is_mentioned_in(path: Path) -> bool:
    """Search a large file without reading it into memory."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        return mapped.find(OLD_ROOT.encode()) >= 0


def _failed(path: Path, reason: str) -> FileOutcome:
    return FileOutcome(path, Outcome(b"", b"", problems=[Problem(reason)]))


@dataclass
class Totals:
    """Counts over files.

    Attributes
    ----------
    changed, written, failed : int
        Files.
    exact, review, manual, note, pending : int
        Edits and findings by class; `pending` are edits that ``--unsafe`` would apply.
    kept : int
        Files that still import Petastorm, which therefore must stay installed.
    unmarked : int
        Of `manual`, those that no TODO comment marks.
    mentions : int
        Of `note`, mentions of Petastorm of which nothing else is said.
    """

    changed: int = 0
    written: int = 0
    failed: int = 0
    exact: int = 0
    review: int = 0
    manual: int = 0
    note: int = 0
    pending: int = 0
    kept: int = 0
    unmarked: int = 0
    mentions: int = 0

    def add(self, one: FileOutcome) -> None:
        """Count a file."""
        outcome = one.outcome
        self.changed += one.changed
        self.written += one.written
        self.failed += bool(outcome.problems)
        self.exact += sum(edit.cls == "exact" for edit in outcome.edits)
        self.review += sum(edit.cls == "review" for edit in outcome.edits)
        manual = [found for found in outcome.findings if found.cls == "manual"]
        self.manual += len(manual)
        self.unmarked += sum(not (found.is_marked or found.is_open_todo) for found in manual)
        self.note += sum(found.cls == "note" for found in outcome.findings)
        self.mentions += sum(found.rule == _MENTION for found in outcome.findings)
        self.pending += sum(found.cls == "review" for found in outcome.findings)
        self.kept += one.keeps_petastorm
