"""The dataset of a reader, with the attributes that code reads of Petastorm's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from mdstorm.errors import MissingAttributeError
from mdstorm_backend.base import cached_property
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.display import Described, Description
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import SampleSource
from mdstorm_backend.storage import open_filesystem

if TYPE_CHECKING:
    from pyarrow.dataset import ParquetFileFragment

_SCHEMA = "mdstorm.etl.dataset_metadata.get_schema_from_dataset_url(url)"
#: What takes the place of attributes of Petastorm's dataset, whose class pyarrow has removed.
#: Shards of MDS have no fragments.
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


class Piece(NamedTuple):
    """A file of a dataset.

    Attributes
    ----------
    path : str
        Where it is in its file system.
    row_group : None
        A piece is a whole file, as in Petastorm.
    partition_keys : list of tuple
        Name and value of each partition column.
    """

    path: str
    row_group: None
    partition_keys: list[tuple[str, Any]]


class ReadDataset(Described):
    """The dataset of a reader: all attributes of its source, and those that Petastorm's has.

    Parameters
    ----------
    source : SampleSource
        What is read, without what filters and selectors have left out.

    Attributes
    ----------
    source : SampleSource
        The same.
    """

    def __init__(self, source: SampleSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def _mdstorm_description(self, *, full: bool) -> Description:
        if isinstance(self.source, Described):
            return self.source._mdstorm_description(full=full)
        return Description([repr(self.source)])

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD:
            raise _missing(name)
        if name == "source":  # it is not there yet, while a copy is made
            raise AttributeError(name)
        return getattr(self.source, name)

    @property
    def schema(self) -> pa.Schema:
        """The columns, partition columns first, with the types in which they are stored."""
        stored = self._stored
        parquet = isinstance(stored, ParquetDataset)
        return stored.arrow_schema if parquet else stored.schema.arrow_schema

    @property
    def table_version(self) -> int | None:
        """The version of a Delta table; None for other datasets."""
        stored = self._stored
        return stored.table_version if isinstance(stored, ParquetDataset) else None

    @property
    def files(self) -> list[str]:
        """Paths of all files or shards, in the order in which they are read."""
        location = self._stored.location
        root = location.path
        return [root + url.removeprefix(location.url) for url in self._stored.file_urls]

    @property
    def paths(self) -> str | list[str]:
        """Path of the directory, or of the only file; or those of several files."""
        stored, files = self._stored, self.files
        if stored.url == stored.location.url:
            return str(stored.location.path)
        return files[0] if len(files) == 1 else files

    @property
    def pieces(self) -> list[Piece]:
        """The files or shards."""
        stored = self._stored
        groups = stored.row_groups if isinstance(stored, ParquetDataset) else ()
        keys = {group.path: list(group.partition.items()) for group in groups}
        root = f"{stored.location.path}/"
        return [Piece(path, None, keys.get(path.removeprefix(root), [])) for path in self.files]

    @property
    def fragments(self) -> list[ParquetFileFragment]:
        """The files as pyarrow has them.

        Raises
        ------
        MissingAttributeError
            If the dataset consists of MDS shards, or is a Delta table, in whose files rows may be
            dead; also AttributeError.
        """
        stored = self._stored
        if not isinstance(stored, ParquetDataset) or stored.table_version is not None:
            raise _missing("fragments")
        from pyarrow.dataset import ParquetFileFormat

        format_, filesystem = ParquetFileFormat(), self._filesystem_of_pyarrow()
        return [format_.make_fragment(path, filesystem) for path in self.files]

    @property
    def fs(self) -> Any:
        """The file system, one of fsspec."""
        location = self._stored.location
        if location.filesystem is not None:
            return location.filesystem
        return open_filesystem(location.url, location.storage_options)[0]

    @property
    def filesystem(self) -> Any:
        """The file system, as `fs`."""
        return self.fs

    def _filesystem_of_pyarrow(self) -> Any:
        from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

        if self._stored.location.is_local_disk:
            return LocalFileSystem()
        return PyFileSystem(FSSpecHandler(self.fs))

    @cached_property
    def _stored(self) -> Any:
        """The dataset as it is stored: that behind views, and behind what decodes it."""
        found: Any = self.source
        while not isinstance(found, (Dataset, ParquetDataset)):
            found = found.stored if hasattr(found, "stored") else found.source
        return found


def _missing(name: str) -> MissingAttributeError:
    return MissingAttributeError(
        f"the dataset of this reader has no {name!r}: use {_INSTEAD[name]} instead", name=name
    )
