"""Names, members and arguments that pyarrow removed from 12 to 21."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Member, Removed, all_of, joined

_FILE_SYSTEMS = Removed(
    "pyarrow 16", "use `pyarrow.fs`: `LocalFileSystem`, `HadoopFileSystem`, `S3FileSystem`"
)
_SERIALIZATION = Removed("pyarrow 12", "use `pickle`, or Arrow's IPC (`pyarrow.ipc`) for tables")
_PARTS = Removed(
    "pyarrow 15",
    "use `.fragments` of `pyarrow.parquet.ParquetDataset`, or `pyarrow.dataset`",
)

NAMES = joined(
    all_of("pyarrow", "hdfs HadoopFileSystem", _FILE_SYSTEMS),
    all_of("pyarrow", "filesystem FileSystem LocalFileSystem localfs", _FILE_SYSTEMS),
    all_of(
        "pyarrow",
        "serialize deserialize serialize_to deserialize_from deserialize_components "
        "read_serialized SerializationContext SerializedPyObject default_serialization_context "
        "register_default_serialization_handlers register_torch_serialization_handlers "
        "serialization",
        _SERIALIZATION,
    ),
    all_of("pyarrow", "plasma", Removed("pyarrow 12", "use shared memory of another library")),
    all_of(
        "pyarrow.parquet",
        "ParquetDatasetPiece ParquetManifest ParquetPartitions PartitionSet",
        _PARTS,
    ),
    all_of("pyarrow", "PyExtensionType", Removed("pyarrow 21", "derive from `ExtensionType`")),
    all_of("pyarrow", "open_stream open_file", Removed("pyarrow 11", "use `pyarrow.ipc`")),
    all_of("pyarrow", "Column column", Removed("pyarrow 11", "use `pyarrow.ChunkedArray`")),
)

_DATASET = ("pyarrow.parquet.ParquetDataset",)

MEMBERS = {
    "pieces": Member(
        _DATASET,
        Removed("pyarrow 15", "read `.fragments` and their `.metadata`; `.schema` is Arrow's"),
    ),
    "partitions": Member(_DATASET, Removed("pyarrow 15", "read `.partitioning`")),
    "common_metadata": Member(
        _DATASET,
        Removed("pyarrow 15", "read the file `_common_metadata` by `pyarrow.parquet.read_schema`"),
    ),
    "common_metadata_path": Member(_DATASET, Removed("pyarrow 15", "make the path yourself")),
    "metadata_path": Member(_DATASET, Removed("pyarrow 15", "make the path yourself")),
    "metadata": Member(_DATASET, Removed("pyarrow 15", "read `.metadata` of a fragment")),
    "validate_schemas": Member(_DATASET, Removed("pyarrow 15", "compare the fragments' schemas")),
    "fs": Member(_DATASET, Removed("pyarrow 15", "read `.filesystem`")),
}

_LEGACY = Removed("pyarrow 20", "leave `use_legacy_dataset` out: there is one implementation")
_SCHEMA = Removed(
    "pyarrow 15", "leave `validate_schema` out: columns that a file lacks are read as null"
)
_THREADS = Removed("pyarrow 15", "leave it out: pyarrow decides itself")

#: Arguments that are gone, by function.
KEYWORDS: dict[str, dict[str, Removed]] = {
    "pyarrow.parquet.ParquetDataset": {
        "use_legacy_dataset": _LEGACY,
        "validate_schema": _SCHEMA,
        "metadata": _THREADS,
        "split_row_groups": _THREADS,
        "metadata_nthreads": _THREADS,
    },
    "pyarrow.parquet.read_table": {
        "use_legacy_dataset": _LEGACY,
        "metadata": _THREADS,
        "nthreads": Removed("pyarrow 11", "pass `use_threads=`"),
    },
    "pyarrow.parquet.write_to_dataset": {
        "use_legacy_dataset": _LEGACY,
        "partition_filename_cb": Removed("pyarrow 15", "pass `basename_template=`"),
    },
}
