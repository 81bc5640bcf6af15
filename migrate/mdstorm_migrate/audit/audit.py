"""Audit a repository: what it uses of Petastorm, and how much needs manual review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mdstorm_migrate.audit.features import features_of
from mdstorm_migrate.base.edits import Class
from mdstorm_migrate.environment.conditions import Condition
from mdstorm_migrate.run.before import before_running
from mdstorm_migrate.run.discover import Skipped
from mdstorm_migrate.run.files import FileOutcome
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.run.together import examine

#: What a file needs, by the worst finding in it; the most effort first.
Effort: TypeAlias = Literal["problem", "manual", "review", "exact", "none"]
EFFORTS: dict[Effort, str] = {
    "problem": "cannot be read or parsed, or not wholly: fix these first",
    "manual": "need manual review",
    "review": "`mdstorm migrate --unsafe` does it; review what changes",
    "exact": "`mdstorm migrate -w` does it",
    "none": "nothing to change",
}

#: Rough estimates: minutes that one item of a class takes somebody who knows the code. Running and
#: testing the migrated code is not included.
MINUTES: dict[Effort, int] = {"problem": 15, "manual": 20, "review": 5, "exact": 0, "none": 0}


@dataclass(frozen=True)
class FileAudit:
    """A file that mentions Petastorm.

    Attributes
    ----------
    path : Path
    features : Counter of (str, str)
        How often it uses which feature, by which name.
    found : Counter of (str, Class)
        How many edits and findings there are, by code and class of the rule.
    problems : tuple of str
        Why it could not be read or parsed.
    """

    path: Path
    features: Counter[tuple[str, str]]
    found: Counter[tuple[str, Class]]
    problems: tuple[str, ...] = ()

    def count(self, cls: Class) -> int:
        """Return how many edits and findings of a class there are."""
        return sum(n for (_, one), n in self.found.items() if one == cls)

    @property
    def effort(self) -> Effort:
        """The worst of what was found."""
        if self.problems:
            return "problem"
        efforts: tuple[Literal["manual", "review", "exact"], ...] = ("manual", "review", "exact")
        return next((effort for effort in efforts if self.count(effort)), "none")


@dataclass(frozen=True)
class FeatureUse:
    """How much a feature is used: in how many files, how often, and by which names."""

    feature: str
    files: int
    uses: int
    names: Counter[str]


@dataclass
class Audit:
    """What was found in all files.

    Attributes
    ----------
    files : list of FileAudit
    skipped : list of Skipped
        What was skipped.
    conditions : list of Condition
        What has to be seen to before the migrated code runs.
    """

    files: list[FileAudit] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)

    @property
    def errors(self) -> list[Skipped]:
        """What should have been read, and could not be."""
        return [one for one in self.skipped if one.is_error]

    def features(self) -> list[FeatureUse]:
        """Return the features in use, that of the most files first."""
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
        """Return how many files need what, the most effort first."""
        counts = Counter(file.effort for file in self.files)
        counts["problem"] += len(self.errors)
        return {effort: counts[effort] for effort in EFFORTS}

    def found(self) -> Counter[tuple[str, Class]]:
        """Return how many edits and findings there are, by code and class."""
        total: Counter[tuple[str, Class]] = Counter()
        for file in self.files:
            total.update(file.found)
        return Counter(dict(sorted(total.items())))

    def minutes(self) -> int:
        """Return a rough estimate of the manual work: see `MINUTES`."""
        problems = sum(bool(file.problems) for file in self.files) + len(self.errors)
        return (
            problems * MINUTES["problem"]
            + sum(file.count("manual") for file in self.files) * MINUTES["manual"]
            + sum(file.count("review") for file in self.files) * MINUTES["review"]
        )


def audit(
    found: Iterable[Path | Skipped],
    settings: Settings,
    jobs: int = 1,
    others: Sequence[Path] = (),
) -> Audit:
    """Audit files; none is changed.

    Parameters
    ----------
    found : iterable of Path or Skipped
        What `discover` yields.
    settings : Settings
        Which rules.
    jobs : int
        How many processes work.
    others : sequence of Path
        Other files of the project, which say what requirements need.
    """
    result = Audit()
    paths: list[Path] = []
    for one in found:
        if isinstance(one, Skipped):
            result.skipped.append(one)
        else:
            paths.append(one)
    settings = replace(settings, todo=False)  # else a comment would count as well
    outcomes = examine(paths, settings, jobs, others)
    result.files.extend(filter(None, map(_audited, outcomes)))
    result.conditions = before_running(outcomes, [*paths, *others], settings)
    return result


def _audited(one: FileOutcome) -> FileAudit | None:
    """Return what a file uses; None if it mentions Petastorm as another word only."""
    path, outcome = one.path, one.outcome
    features = features_of(outcome.before, path)
    if not (features or one.has_something_to_say):
        return None
    return FileAudit(path, features, Counter(_classes(one)), tuple(map(str, outcome.problems)))


def _classes(one: FileOutcome) -> Iterator[tuple[str, Class]]:
    edits: Sequence[tuple[str, Class]] = [(edit.rule, edit.cls) for edit in one.outcome.edits]
    return iter([*edits, *((found.rule, found.cls) for found in one.outcome.findings)])
