"""Which features of Petastorm a file uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from mdstorm_migrate.base.document import Document, Kind, SourceError
from mdstorm_migrate.petastorm.names import (
    CONF_KEY,
    CONVERTER,
    HOMES,
    OLD_ROOT,
    RENAMED,
    is_module,
    is_petastorm,
    missing,
)
from mdstorm_migrate.python.conf_writes import CONSTANT
from mdstorm_migrate.python.imports import ImportedName, imported_names
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.python.shadow import shadowed
from mdstorm_migrate.sources import find_source

CONF = "Parent cache directory"
INTERNALS = "Petastorm's internals"
OTHER = "Other"

#: Modules and names, and what people call what they do. Of two that fit, the longer counts.
_OF_PATHS = {
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
    f"{CONVERTER}.make_tf_dataset": "Spark converter: TensorFlow datasets",
    f"{CONVERTER}.make_torch_dataloader": "Spark converter: PyTorch loaders",
}

_OF_KINDS: dict[Kind, str] = {
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
    "spark_conf": "Spark configuration files",
    "other": "Cells in other languages",
}

#: All features there are.
FEATURES = tuple(sorted({CONF, INTERNALS, *_OF_PATHS.values(), *_OF_KINDS.values()}))


def features_of(data: bytes, path: PurePath) -> Counter[tuple[str, str]]:
    """Return how often a file uses what: features, and the names by which it does.

    A name that is imported counts once for each use, and once if it is only imported. A file that
    cannot be parsed uses nothing, as far as can be told.
    """
    source = find_source(path, data[:256])
    found: Counter[tuple[str, str]] = Counter()
    try:
        documents = source.read(data, path).documents if source is not None else ()
        for document in documents:
            is_prose = document.kind == "markdown" and path.suffix == ".ipynb"
            if OLD_ROOT in document.text.lower() and not is_prose:
                found.update(_uses(document))
    except (SourceError, RecursionError):
        return Counter()
    return found


def _uses(document: Document) -> Iterator[tuple[str, str]]:
    if document.kind != "python":
        yield _OF_KINDS[document.kind], document.kind
        return
    module = PythonModule(document, parse_python(document.code))
    for name in imported_names(module):
        if not any(shadowed(module, binding) for binding in name.imports):
            yield from map(_use, _paths(name))
    for _, path in module.calls:
        if path.startswith(f"{CONVERTER}."):  # the methods that are known by their names
            yield _use(path)
    for string in module.scopes.strings:
        value = string_value(string) or ""
        if value == CONF_KEY:
            yield CONF, CONF_KEY
        elif is_petastorm(value) and value != OLD_ROOT and missing(value) is None:
            yield _use(value)


def _paths(name: ImportedName) -> Iterator[str]:
    """Yield the dotted path of each use of an imported name, or of its import if there is none."""
    uses = [use.path for use in name.all_uses] + [text.path for text in name.texts]
    yield from uses or [name.imports[0].target or OLD_ROOT]


def _use(path: str) -> tuple[str, str]:
    """Return the feature that a dotted path belongs to, and the name by which it is known."""
    parts = path.split(".")
    if parts[-1] == CONSTANT:
        return CONF, CONSTANT
    lacking = missing(path)
    if lacking is not None:
        module, _, name = lacking.rpartition(".")
        module, name = HOMES.get(module, {}).get(name, module), RENAMED.get((module, name), name)
        known = f"{module}.{name}"
        return _use(known) if known != lacking else (INTERNALS, lacking)
    stop = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in _OF_PATHS)
    return _OF_PATHS[".".join(parts[:stop])], _name(parts)


def _name(parts: Sequence[str]) -> str:
    """Return what is used of a module, without attributes of it but for methods of converters."""
    first = next((n for n in range(len(parts)) if not is_module(".".join(parts[: n + 1]))), None)
    if first is None:
        return ".".join(parts)
    is_method = ".".join(parts) in _OF_PATHS
    return ".".join(parts[first:] if is_method else parts[first : first + 1])
