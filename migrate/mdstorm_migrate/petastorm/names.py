"""Petastorm's public names, and where mdstorm offers them.

mdstorm mirrors Petastorm module for module, so most of this table is a list of public names. A test
compares it with the package itself.
"""

from __future__ import annotations

import json
import pkgutil
import re
from typing import Any, NamedTuple


def words(text: str) -> frozenset[str]:
    """Return the words in a string; the tables in this folder are written as strings."""
    return frozenset(text.split())


OLD_ROOT = "petastorm"
NEW_ROOT = "mdstorm"

#: A dotted name of Petastorm, which may have a colon before the name in a module, as those of entry
#: points have.
PATH = re.compile(rf"{OLD_ROOT}(?:[.:][^\W\d]\w*)*")

#: The Spark conf key of the parent cache directory. mdstorm also reads it, so code may keep it.
CONF_KEY = "petastorm.spark.converter.parentCacheDirUrl"
#: A pattern for the part of `CONF_KEY` after the library's name.
REST_OF_KEY = re.escape(CONF_KEY.removeprefix(OLD_ROOT)) + r"(?![\w.])"

#: The class whose methods are recognised by their names alone.
CONVERTER = "petastorm.spark.SparkDatasetConverter"
CONVERTER_METHODS = ("make_tf_dataset", "make_torch_dataloader")

#: Public names of each module, and private ones that programs use and mdstorm has.
PUBLIC: dict[str, frozenset[str]] = {
    module: words(names)
    for module, names in {
        "petastorm": "NoDataAvailableError TransformSpec __version__ make_batch_reader make_reader",
        "petastorm.cache": "CacheBase NullCache",
        "petastorm.codecs": (
            "CompressedImageCodec CompressedNdarrayCodec DataframeColumnCodec NdarrayCodec "
            "ScalarCodec"
        ),
        "petastorm.errors": (
            "DecodeFieldError NoDataAvailableError PetastormMetadataError "
            "PetastormMetadataGenerationError"
        ),
        "petastorm.etl": "RowGroupIndexerBase",
        "petastorm.etl.dataset_metadata": (
            "PetastormMetadataError PetastormMetadataGenerationError ROW_GROUPS_PER_FILE_KEY "
            "UNISCHEMA_KEY get_schema get_schema_from_dataset_url infer_or_load_unischema "
            "load_row_groups materialize_dataset"
        ),
        "petastorm.etl.petastorm_generate_metadata": "generate_petastorm_metadata main",
        "petastorm.etl.rowgroup_indexers": "FieldNotNullIndexer SingleFieldIndexer",
        "petastorm.etl.rowgroup_indexing": (
            "PieceInfo ROWGROUPS_INDEX_KEY build_rowgroup_index get_row_group_indexes"
        ),
        "petastorm.fs_utils": (
            "FilesystemResolver get_dataset_path get_filesystem_and_path_or_paths normalize_dir_url"
        ),
        "petastorm.local_disk_cache": "LocalDiskCache",
        "petastorm.ngram": "NGram",
        "petastorm.predicates": (
            "PredicateBase in_intersection in_lambda in_negate in_pseudorandom_split in_reduce "
            "in_set"
        ),
        "petastorm.pytorch": (
            "BatchedDataLoader DataLoader InMemBatchedDataLoader LoaderBase _load_rows_into_mem "
            "_sanitize_pytorch_types decimal_friendly_collate"
        ),
        "petastorm.reader": (
            "LOCAL_DISK_CACHE NULL_CACHE Reader make_batch_reader make_reader "
            "normalize_dataset_url_or_urls"
        ),
        "petastorm.reader_impl": "",
        "petastorm.reader_impl.shuffling_buffer": (
            "NoopShufflingBuffer RandomShufflingBuffer ShufflingBufferBase"
        ),
        "petastorm.selectors": (
            "IntersectIndexSelector RowGroupSelectorBase SingleIndexSelector UnionIndexSelector"
        ),
        "petastorm.spark": "SparkDatasetConverter make_spark_converter",
        "petastorm.spark.spark_dataset_converter": (
            "DEFAULT_ROW_GROUP_SIZE_BYTES SparkDatasetConverter "
            "TFDatasetContextManager TorchDatasetContextManager make_spark_converter "
            "register_delete_dir_handler"
        ),
        "petastorm.spark_utils": "dataset_as_rdd",
        "petastorm.tf_utils": (
            "RANDOM_SHUFFLING_QUEUE_SIZE date_to_nsec_from_epoch make_namedtuple_tf_ngram "
            "make_petastorm_dataset tf_tensors"
        ),
        "petastorm.transform": "TransformSpec edit_field transform_schema",
        "petastorm.unischema": (
            "Unischema UnischemaField _field_spark_dtype _numpy_and_codec_from_arrow_type "
            "_numpy_to_spark_mapping dict_to_spark_row insert_explicit_nulls "
            "match_unischema_fields"
        ),
        "petastorm.utils": "DecodeFieldError add_to_dataset_metadata decode_row run_in_subprocess",
        "petastorm.weighted_sampling_reader": "WeightedSamplingReader",
    }.items()
}


def data_file(name: str) -> Any:
    """Return the content of a JSON file in this folder."""
    return json.loads(pkgutil.get_data("mdstorm_migrate.petastorm", name) or b"")


#: mdstorm's own data file, of which the one in this folder is a copy.
DATA = data_file("petastorm_names.json")

#: Names that a module imports only for its own use, but that people import from this module.
HOMES: dict[str, dict[str, str]] = {
    f"{OLD_ROOT}.{module}": {name: f"{OLD_ROOT}.{home}" for name, home in homes.items()}
    for module, homes in DATA["defined_elsewhere"].items()
}

#: Names of older versions of Petastorm, and their later names.
RENAMED: dict[tuple[str, str], str] = {
    ("petastorm.pytorch", "BatchDataLoader"): "BatchedDataLoader",
}

VERSION = "petastorm.__version__"

#: The commands that Petastorm installs, and the modules that they run.
SCRIPTS = {
    "petastorm-copy-dataset.py": "petastorm.tools.copy_dataset",
    "petastorm-generate-metadata.py": "petastorm.etl.petastorm_generate_metadata",
    "petastorm-throughput.py": "petastorm.benchmark.cli",
}

#: Functions and classes that only programs call, not Petastorm itself, so a mock of one affects
#: the program with either library.
ENTRIES = frozenset(
    [
        *("make_batch_reader", "make_reader", "make_spark_converter", "materialize_dataset"),
        *("BatchedDataLoader", "InMemBatchedDataLoader", "TransformSpec", "WeightedSamplingReader"),
        *("build_rowgroup_index", "dataset_as_rdd", "dict_to_spark_row", "tf_tensors"),
        *("in_intersection", "in_lambda", "in_negate", "in_pseudorandom_split", "in_reduce"),
        "in_set",
    ]
)

#: Names that accept and return only plain values, so code may continue to import them from
#: Petastorm.
_INDEPENDENT = (
    "petastorm.benchmark",
    "petastorm.namedtuple_gt_255_fields",
    "petastorm.spark.spark_dataset_converter._get_horovod_rank_and_size",
    "petastorm.spark.spark_dataset_converter._wait_file_available",
    "petastorm.test_util.shuffling_analysis",
    "petastorm.tools.spark_session_cli",
    "petastorm.tf_utils._numpy_to_tf_dtypes",
    "petastorm.unischema._NamedtupleCache",
    "petastorm.unischema._fullmatch",
)

#: Attributes that every Python module has.
_MODULE_DUNDERS = frozenset({"__dict__", "__doc__", "__file__", "__name__", "__path__", "__spec__"})

#: Names that only older versions of Petastorm have, or that mean something else in mdstorm; and
#: what to do instead.
REMOVED: dict[str, str] = {
    "petastorm.shuffle_options": (
        "pass shuffle_row_groups= and shuffle_row_drop_partitions= to the reader"
    ),
    VERSION: "mdstorm has its own version numbers: decide which branch is right, and keep it",
}


class Counterpart(NamedTuple):
    """The location of a name in mdstorm: ``from <module> import <name>``."""

    module: str
    name: str


def renamed(path: str) -> str:
    """Return a dotted path in ``petastorm`` as the same path in ``mdstorm``."""
    return NEW_ROOT + path.removeprefix(OLD_ROOT)


def is_within(path: str, module: str) -> bool:
    """Whether a dotted path is a module or something in it."""
    return path == module or path.startswith(f"{module}.")


def is_petastorm(path: str | None) -> bool:
    """Whether a dotted path is Petastorm's package or something in it."""
    return path is not None and is_within(path, OLD_ROOT)


def is_mdstorm(path: str | None) -> bool:
    """Whether a dotted path is mdstorm's package or something in it."""
    return path is not None and is_within(path, NEW_ROOT)


def is_module(path: str) -> bool:
    """Whether mdstorm has a counterpart for a Petastorm module."""
    return path in PUBLIC


def is_independent(path: str) -> bool:
    """Whether a missing name accepts and returns only plain values, no objects of the library."""
    return any(is_within(path, one) for one in _INDEPENDENT)


def counterpart(module: str, name: str) -> Counterpart | None:
    """Return mdstorm's counterpart for ``from <module> import <name>``, or None if it has none."""
    if name in PUBLIC.get(module, ()) or is_module(f"{module}.{name}"):
        return Counterpart(renamed(module), name)
    home = HOMES.get(module, {}).get(name)
    return Counterpart(renamed(home), name) if home is not None else None


def missing(path: str) -> str | None:
    """Return the shortest prefix of a dotted path that mdstorm lacks, or None if it has the path.

    For ``petastorm.workers_pool.thread_pool.ThreadPool``, it is ``petastorm.workers_pool``. A colon
    may separate a module from a name in it, as for `pkgutil.resolve_name`. Attributes of names that
    mdstorm has are assumed to exist.
    """
    parts = path.replace(":", ".").split(".")
    for stop in range(1, len(parts) + 1):
        module = ".".join(parts[:stop])
        if not is_module(module):
            name, known = parts[stop - 1], PUBLIC.get(".".join(parts[: stop - 1]), ())
            return None if name in known or name in _MODULE_DUNDERS else module
    return None


def is_known(path: str) -> bool:
    """Whether a path names a part of either library that both have, and not a whole library."""
    root, _, rest = path.replace(":", ".").partition(".")
    return root in (OLD_ROOT, NEW_ROOT) and missing(f"{OLD_ROOT}.{rest}") is None


#: Those of these commands that mdstorm installs under a name of its own.
NEW_SCRIPTS = [renamed(name) for name, path in SCRIPTS.items() if missing(path) is None]


def is_configured(key: str, path: str) -> bool:
    """Whether code may import a value of configuration from either library.

    It is a function or class, or a module under the key ``module``.
    """
    _, _, rest = path.replace(":", ".").partition(".")
    return is_known(path) and (key == "module" or not is_module(f"{OLD_ROOT}.{rest}"))
