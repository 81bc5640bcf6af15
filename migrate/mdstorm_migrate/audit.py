"""Audit a repository: its use of Petastorm, and how much of it needs manual review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.run.before import before_running
from mdstorm_migrate.run.discover import Skipped, code_in_skipped
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.together import examine

#: Efforts for a file, in descending order. The worst finding of a file determines its effort.
Effort: TypeAlias = Literal["problem", "manual", "review", "exact", "none"]
EFFORTS: dict[Effort, str] = {
    "problem": "cannot be fully read or parsed: fix these first",
    "manual": "need manual review",
    "review": "`mdstorm migrate --unsafe` does it; review what changes",
    "exact": "`mdstorm migrate -w` does it",
    "none": "nothing to change",
}

#: Rough estimates of the minutes that a person who knows the code needs for one finding of each
#: class. Edits to review count once per file, because they have one cause. Running and testing the
#: code is not included.
MINUTES: dict[Effort, int] = {"problem": 15, "manual": 20, "review": 5, "exact": 0, "none": 0}


@dataclass(frozen=True)
class FileAudit:
    """The audit of a file that mentions Petastorm.

    Attributes
    ----------
    path : Path
    features : Counter of (str, str)
        How often the file uses each feature, by name.
    found : Counter of (str, Class)
        The number of edits and findings, by code and class of the rule.
    problems : tuple of str
        Why the file could not be read or parsed.
    """

    path: Path
    features: Counter[tuple[str, str]]
    found: Counter[tuple[str, Class]]
    problems: tuple[str, ...] = ()

    def count(self, cls: Class) -> int:
        """Return the number of edits and findings of a class."""
        return sum(n for (_, one), n in self.found.items() if one == cls)

    @property
    def effort(self) -> Effort:
        """The effort of the worst finding."""
        if self.problems:
            return "problem"
        efforts: tuple[Literal["manual", "review", "exact"], ...] = ("manual", "review", "exact")
        return next((effort for effort in efforts if self.count(effort)), "none")


@dataclass(frozen=True)
class FeatureUse:
    """The use of a feature: the number of files, the number of uses, and the names used."""

    feature: str
    files: int
    uses: int
    names: Counter[str]


@dataclass
class Audit:
    """The audit of all files.

    Attributes
    ----------
    files : list of FileAudit
    skipped : list of Skipped
        The skipped paths.
    conditions : list of Condition
        Conditions to meet before the migrated code runs.
    """

    files: list[FileAudit] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)

    @property
    def errors(self) -> list[Skipped]:
        """The paths that should have been read but could not be."""
        return [one for one in self.skipped if one.is_error]

    def features(self) -> list[FeatureUse]:
        """Return the features used, sorted by number of files in descending order."""
        files: Counter[str] = Counter()
        names: dict[str, Counter[str]] = {}
        for file in self.files:
            files.update({feature for feature, _ in file.features})
            for (feature, name), count in file.features.items():
                names.setdefault(feature, Counter())[name] += count
        found = [
            FeatureUse(feature, count, names[feature].total(), names[feature])
            for feature, count in files.items()
        ]
        return sorted(found, key=lambda use: (-use.files, use.feature))

    def efforts(self) -> dict[Effort, int]:
        """Return the number of files for each effort, highest effort first."""
        counts = Counter(file.effort for file in self.files)
        counts["problem"] += len(self.errors)
        return {effort: counts[effort] for effort in EFFORTS}

    def found(self) -> Counter[tuple[str, Class]]:
        """Return the number of edits and findings, by rule code and class."""
        total: Counter[tuple[str, Class]] = Counter()
        for file in self.files:
            total.update(file.found)
        return Counter(dict(sorted(total.items())))

    def minutes(self) -> int:
        """Return a rough estimate of the manual work in minutes; see `MINUTES`."""
        return (
            self.efforts()["problem"] * MINUTES["problem"]
            + sum(file.count("manual") for file in self.files) * MINUTES["manual"]
            + sum(file.count("review") > 0 for file in self.files) * MINUTES["review"]
        )


def audit(
    discovered: Iterable[Path | Skipped],
    settings: Settings,
    jobs: int = 1,
    others: Sequence[Path] = (),
) -> Audit:
    """Audit files without changing any.

    Parameters
    ----------
    discovered : iterable of Path or Skipped
        The results of `discover`.
    settings : Settings
        The selected rules.
    jobs : int
        Number of processes.
    others : sequence of Path
        Other files of the project, which determine what requirements need.
    """
    scanned = list(discovered)
    paths = [one for one in scanned if isinstance(one, Path)]
    settings = replace(settings, todo=False)  # TODO comments would count as edits
    examined = examine(paths, settings, jobs, others, code_in_skipped(scanned))
    return Audit(
        list(filter(None, map(_audited, examined.outcomes))),
        [one for one in scanned if isinstance(one, Skipped)],
        before_running(examined, settings),
    )


def _audited(file: FileOutcome) -> FileAudit | None:
    """Return the audit of a file, or None if it mentions Petastorm only in a different sense."""
    if not (file.features or file.has_results):
        return None
    found: list[Edit | Finding] = [*file.outcome.edits, *file.outcome.findings]
    counts = Counter((one.rule, one.cls) for one in found)
    problems = tuple(map(str, file.outcome.problems))
    return FileAudit(file.path, file.features, counts, problems)
