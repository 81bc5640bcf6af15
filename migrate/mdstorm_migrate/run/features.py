"""The features of Petastorm that a file uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mdstorm_migrate.base.document import Document, DocumentKind
from mdstorm_migrate.petastorm import names as petastorm
from mdstorm_migrate.python.imports import ImportedName, imported_names, reached_uses
from mdstorm_migrate.python.module import PythonModule, string_value
from mdstorm_migrate.python.shadow import shadowed

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

_KIND_FEATURES: dict[DocumentKind, str] = {
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


def features_of(document: Document, module: PythonModule | None) -> Iterator[tuple[str, str]]:
    """Yield a feature and a name for each use of Petastorm in a document.

    An imported name counts once for each use, and once if it is only imported.

    Parameters
    ----------
    document : Document
    module : PythonModule or None
        The parsed document, if it is Python.
    """
    if module is None:
        if document.kind == "markdown" and document.is_in_jupyter:
            return
        if petastorm.CONF_KEY in document.text:
            yield CONF, petastorm.CONF_KEY
        if petastorm.OLD_ROOT in document.text.replace(petastorm.CONF_KEY, "").lower():
            yield _KIND_FEATURES[document.kind], document.kind
        return
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
