"""An open dataset of any kind, decoded by its schema, and a reader's `dataset`."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from mdstorm import errors
from mdstorm._datasets.decoded_source import decoded, in_float_types, stored_unischema
from mdstorm._datasets.field_decoders import AS_STORED, Floats, schema_with_floats
from mdstorm._datasets.petastorm_metadata import row_group_counts
from mdstorm.unischema import Unischema, infer_unischema
from mdstorm_backend.base import warn_user
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.display import Described, Description
from mdstorm_backend.kinds import Openable
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import open_filesystem

_SCHEMA = "mdstorm.etl.dataset_metadata.get_schema_from_dataset_url(url)"
#: Replacements for attributes of Petastorm's dataset, whose class pyarrow has removed.
_INSTEAD = {
    "common_metadata_path": _SCHEMA,
    "fragments": "pieces, or file_urls",
    "metadata": _SCHEMA,
    "metadata_path": _SCHEMA,
    "partitioning": "pieces[…].partition_keys",
    "partitions": "pieces[…].partition_keys",
    "read": "to_table(), or pyarrow.parquet.read_table",
    "read_pandas": "to_pandas()",
}


class Opened(NamedTuple):
    """An open dataset of any kind.

    Attributes
    ----------
    source : SampleDataset
        Its samples.
    unischema : Unischema
        The fields that were stored with the dataset, or inferred from its columns.
    inferred : bool
        Whether the fields are inferred from the columns.
    is_encoded : bool
        Whether the dataset has a schema of Petastorm, by which its Parquet files have to be
        decoded.
    """

    source: SampleDataset
    unischema: Unischema
    inferred: bool = False
    is_encoded: bool = False


def opened(
    dataset: SampleDataset,
    *,
    decode: bool = True,
    floats: Floats = AS_STORED,
    missing_fields: bool = False,
) -> Opened:
    """Decode an open dataset by its schema, or infer the schema.

    Parameters
    ----------
    dataset : SampleDataset
        The dataset.
    decode : bool
        Whether fields that Petastorm stored encoded are decoded.
    floats : Floats
        The types in which decimals and floating-point numbers are read.
    missing_fields : bool
        Whether fields may be missing, as partition columns are if files are listed.
    """
    stored = stored_unischema(dataset)
    if stored is not None and missing_fields:
        there = [field for name, field in stored.fields.items() if name in dataset.schema]
        stored = stored.create_schema_view(there)
    _warn_of_columns(dataset)
    is_encoded = stored is not None and isinstance(dataset, ParquetDataset)
    if isinstance(dataset, ParquetDataset) and stored is not None:
        _warn_of_files(dataset, stored)
    if stored is None:
        data = Opened(dataset, infer_unischema(dataset.schema), inferred=True)
    elif is_encoded and not decode:
        as_stored = infer_unischema(dataset.schema, stored._name)
        data = Opened(dataset, as_stored, inferred=True, is_encoded=True)
    else:
        data = Opened(decoded(dataset, stored), stored, is_encoded=is_encoded)
    if not floats:
        return data
    return data._replace(
        source=in_float_types(data.source, floats),
        unischema=schema_with_floats(data.unischema, floats),
    )


def _warn_of_columns(dataset: SampleDataset) -> None:
    """Warn about columns of unsupported types."""
    for name, type_ in dataset.columns_left_out.items():
        warn_user(f"Column {name!r} has an unsupported field of type {type_}. Ignoring...")


def _warn_of_files(dataset: ParquetDataset, stored: Unischema) -> None:
    """Warn about files that the metadata of Petastorm does not list."""
    named = row_group_counts(dataset.common_metadata)
    others = [file.name for file in dataset.files if named and file.name not in named]
    if others:
        warn_user(
            f"{dataset.url} holds files that its metadata does not list: {others[:3]}, "
            f"{len(others)} in all. Their rows are also read, with the schema {stored._name!r}. "
            "If a failed materialize_dataset block left these files behind, remove them; otherwise "
            "add them to the metadata with an empty block with that schema"
        )


class Piece(NamedTuple):
    """A file of a dataset.

    Attributes
    ----------
    path : str
        Path in its file system.
    row_group : None
        A piece is a whole file, as in Petastorm.
    partition_keys : list of tuple
        Name and value of each partition column.
    """

    path: str
    row_group: None
    partition_keys: list[tuple[str, Any]]


class ReadDataset(Openable, Described):
    """A reader's dataset, with the attributes of its source and of Petastorm's dataset.

    Parameters
    ----------
    source : SampleDataset
        The data to read, without row groups that filters and selectors exclude.

    Attributes
    ----------
    source : SampleDataset
        The data to read.
    """

    def __init__(self, source: SampleDataset) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def _mdstorm_open(self) -> SampleDataset:
        return self.source

    def _mdstorm_description(self, *, full: bool) -> Description:
        return self.source._mdstorm_description(full=full)

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD:
            raise errors.MissingAttributeError(
                f"the dataset of this reader has no {name!r}: use {_INSTEAD[name]} instead",
                name=name,
            )
        if name == "source":  # not set yet while an object is being copied
            raise AttributeError(name)
        return getattr(self.source, name)

    @property
    def schema(self) -> pa.Schema:
        """The columns with their stored types, partition columns first."""
        stored = self.source.stored
        if isinstance(stored, ParquetDataset):
            return stored.arrow_schema
        return stored.schema.arrow_schema

    @property
    def table_version(self) -> int | None:
        """The version of a Delta table, or an Iceberg snapshot's id; None for other datasets."""
        return self.source.stored.table_version

    @property
    def files(self) -> list[str]:
        """Paths of all files or shards, in reading order."""
        stored = self.source.stored
        root, url = stored.location.path, stored.location.url
        return [root + file.removeprefix(url) for file in stored.file_urls]

    @property
    def paths(self) -> str | list[str]:
        """Path of the directory or the only file, or the paths of several files."""
        stored, files = self.source.stored, self.files
        if stored.url == stored.location.url:
            return str(stored.location.path)
        return files[0] if len(files) == 1 else files

    @property
    def pieces(self) -> list[Piece]:
        """The files or shards."""
        stored = self.source.stored
        groups = stored.row_groups if isinstance(stored, ParquetDataset) else ()
        keys = {group.path: list(group.partition.items()) for group in groups}
        root = f"{stored.location.path}/"
        return [Piece(path, None, keys.get(path.removeprefix(root), [])) for path in self.files]

    @property
    def fs(self) -> Any:
        """The fsspec file system."""
        location = self.source.stored.location
        if location.filesystem is not None:
            return location.filesystem
        return open_filesystem(location.url, location.storage_options)[0]

    filesystem = fs
