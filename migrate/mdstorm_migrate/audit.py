"""Audit a repository: its use of Petastorm, and how much of it needs manual review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document, Kind, SourceError
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.base.needs import Given
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.petastorm import names as petastorm
from mdstorm_migrate.python.imports import ImportedName, imported_names, reached_uses
from mdstorm_migrate.python.module import PythonModule, parse_python, string_value
from mdstorm_migrate.python.shadow import shadowed
from mdstorm_migrate.run.before import before_running
from mdstorm_migrate.run.discover import Skipped, code_in_skipped
from mdstorm_migrate.run.outcome import FileOutcome, Settings
from mdstorm_migrate.run.together import examine
from mdstorm_migrate.sources import find_source

CONF = "Parent cache directory"
#: Attribute of `SparkDatasetConverter` that holds the conf key of the parent cache directory.
CONSTANT = "PARENT_CACHE_DIR_URL_CONF"
INTERNALS = "Petastorm's internals"
OTHER = "Other"

#: The feature that each module or name belongs to. If two entries are prefixes of a path, the
#: longer one applies.
_PATH_FEATURES = {
    "petastorm": OTHER,
    "petastorm.TransformSpec": "Transforms",
    "petastorm.benchmark": "Command line tools",
    "petastorm.cache": "Caches of readers",
    "petastorm.codecs": "Codecs",
    "petastorm.NoDataAvailableError": "Errors",
    "petastorm.errors": "Errors",
    "petastorm.etl": "Writing datasets",
    "petastorm.etl.rowgroup_indexers": "Row-group indexes and selectors",
    "petastorm.etl.rowgroup_indexing": "Row-group indexes and selectors",
    "petastorm.fs_utils": "File systems and URLs",
    "petastorm.generator": "Test helpers",
    "petastorm.local_disk_cache": "Caches of readers",
    "petastorm.make_batch_reader": "Readers of any Parquet files",
    "petastorm.make_reader": "Readers of Petastorm datasets",
    "petastorm.ngram": "N-grams",
    "petastorm.predicates": "Predicates",
    "petastorm.pytorch": "PyTorch loaders over readers",
    "petastorm.reader": "Readers of Petastorm datasets",
    "petastorm.reader.make_batch_reader": "Readers of any Parquet files",
    "petastorm.reader_impl": "PyTorch loaders over readers",
    "petastorm.selectors": "Row-group indexes and selectors",
    "petastorm.spark": "Spark converter",
    "petastorm.spark_utils": "Datasets as RDDs",
    "petastorm.test_util": "Test helpers",
    "petastorm.tf_utils": "TensorFlow datasets over readers",
    "petastorm.tools": "Command line tools",
    "petastorm.transform": "Transforms",
    "petastorm.unischema": "Unischema",
    "petastorm.utils": "Utilities",
    "petastorm.weighted_sampling_reader": "Weighted sampling",
    "petastorm.workers_pool": "Pools of workers",
    f"{petastorm.CONVERTER}.make_tf_dataset": "Spark converter: TensorFlow datasets",
    f"{petastorm.CONVERTER}.make_torch_dataloader": "Spark converter: PyTorch loaders",
}

_KIND_FEATURES: dict[Kind, str] = {
    "cluster": "Definitions of clusters and jobs",
    "conda": "Requirements",
    "docker": "Install commands",
    "lock": "Lock files",
    "magic": "Install commands",
    "markdown": "Documentation",
    "pipfile": "Requirements",
    "pyproject": "Requirements",
    "requirements": "Requirements",
    "setup_cfg": "Requirements",
    "shell": "Install commands",
    "text": "Files of other kinds",
    "other": "Cells in other languages",
}

#: All features.
FEATURES = tuple(sorted({CONF, INTERNALS, *_PATH_FEATURES.values(), *_KIND_FEATURES.values()}))


def features_of(
    data: bytes, path: PurePath, given: Mapping[str, str] | None = None
) -> Counter[tuple[str, str]]:
    """Return how often a file uses each feature, counted by feature and name.

    An imported name counts once for each use, and once if it is only imported. A file that cannot
    be parsed counts as using nothing.

    Parameters
    ----------
    data : bytes
    path : PurePath
    given : mapping of str to str, optional
        How it reaches Petastorm through other modules; see `Given`.
    """
    source = find_source(path, data)
    found: Counter[tuple[str, str]] = Counter()
    try:
        documents = source.read(data, path).documents if source is not None else ()
        for document in documents:
            is_prose = document.kind == "markdown" and path.suffix == ".ipynb"
            is_used = given is not None or petastorm.OLD_ROOT in document.text.lower()
            if is_used and not is_prose:
                found.update(_uses(document, Given(given)))
    except (SourceError, RecursionError):
        return Counter()
    return found


def _uses(document: Document, given: Given) -> Iterator[tuple[str, str]]:
    if document.kind != "python":
        if petastorm.CONF_KEY in document.text:
            yield CONF, petastorm.CONF_KEY
        if petastorm.OLD_ROOT in document.text.replace(petastorm.CONF_KEY, "").lower():
            yield _KIND_FEATURES[document.kind], document.kind
        return
    module = PythonModule(document, parse_python(document.code), given=given)
    for name in imported_names(module):
        if not any(shadowed(module, binding) for binding in name.imports):
            yield from map(_use, _paths(name))
    yield from (_use(use.path) for use in reached_uses(module))
    for _, path in module.calls:
        if path.startswith(f"{petastorm.CONVERTER}."):  # methods that are recognised by their names
            yield _use(path)
    for string in module.scopes.strings:
        value = string_value(string) or ""
        if value == petastorm.CONF_KEY:
            yield CONF, petastorm.CONF_KEY
        elif (
            petastorm.is_petastorm(value)
            and value != petastorm.OLD_ROOT
            and petastorm.missing(value) is None
        ):
            yield _use(value)


def _paths(name: ImportedName) -> Iterator[str]:
    """Yield the paths of an imported name's uses, or of its import if the name is unused."""
    uses = [use.path for use in name.all_uses] + [text.path for text in name.texts]
    yield from uses or [name.imports[0].target or petastorm.OLD_ROOT]


def _use(path: str) -> tuple[str, str]:
    """Return the feature that a dotted path belongs to, and the name to report for the path."""
    parts = path.split(".")
    if parts[-1] == CONSTANT:
        return CONF, CONSTANT
    absent = petastorm.missing(path)
    if absent is not None:
        module, _, name = absent.rpartition(".")
        module, name = (
            petastorm.HOMES.get(module, {}).get(name, module),
            petastorm.RENAMED.get((module, name), name),
        )
        known = f"{module}.{name}"
        return _use(known) if known != absent else (INTERNALS, absent)
    stop = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in _PATH_FEATURES)
    return _PATH_FEATURES[".".join(parts[:stop])], _name(parts)


def _name(parts: Sequence[str]) -> str:
    """Return the first name in a path after its module; ``Class.method`` for a converter method."""
    first = next(
        (n for n in range(len(parts)) if not petastorm.is_module(".".join(parts[: n + 1]))), None
    )
    if first is None:
        return ".".join(parts)
    is_method = ".".join(parts) in _PATH_FEATURES
    return ".".join(parts[first:] if is_method else parts[first : first + 1])


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
    found: Iterable[Path | Skipped],
    settings: Settings,
    jobs: int = 1,
    others: Sequence[Path] = (),
) -> Audit:
    """Audit files without changing any.

    Parameters
    ----------
    found : iterable of Path or Skipped
        The results of `discover`.
    settings : Settings
        The selected rules.
    jobs : int
        Number of processes.
    others : sequence of Path
        Other files of the project, which determine what requirements need.
    """
    scanned = list(found)
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
    path, outcome = file.path, file.outcome
    features = features_of(outcome.before, path, file.given)
    if not (features or file.has_results):
        return None
    found: list[Edit | Finding] = [*outcome.edits, *outcome.findings]
    counts = Counter((one.rule, one.cls) for one in found)
    return FileAudit(path, features, counts, tuple(map(str, outcome.problems)))
