"""Convert the Parquet files that a block of code writes to MDS."""

from __future__ import annotations

import posixpath
from typing import Any

from mdstorm._conversion.petastorm_to_mds import mds_plan
from mdstorm._datasets.metadata_keys import UNISCHEMA_EXTRA
from mdstorm._datasets.petastorm_source import with_declared_partitions
from mdstorm._schema.schema_json import unischema_to_json
from mdstorm._schema.unischema import Unischema
from mdstorm.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    MDStormError,
    PetastormMetadataGenerationError,
)
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.storage import Location

#: What Spark writes beside the data.
_SPARK_FILES = frozenset({"_SUCCESS", "_common_metadata", "_metadata"})


class WrittenParquet:
    """Knows which files of a directory are new since it was made.

    Parameters
    ----------
    location : Location
        The directory, which need not be there yet.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._before = {name: _state(location, name) for name in location.list_names()}

    def convert(self, schema: Unischema, shard_size: int | None) -> None:
        """Make an MDS dataset of all Parquet files in the directory.

        After its index is written, the files that are new are removed, and what Spark wrote beside
        them. Files that were there before stay.

        Parameters
        ----------
        schema : Unischema
            What the rows were encoded by.
        shard_size : int or None
            Largest size of a shard in bytes.

        Raises
        ------
        DatasetNotFoundError
            If there are no Parquet files; also OSError.
        DatasetExistsError
            If the directory held a dataset of MDS, and still does.
        PetastormMetadataGenerationError
            If they cannot be converted; they are left unchanged.
        """
        location = self._location
        if location.exists(INDEX_NAME):
            raise DatasetExistsError(
                f"{location.url} already holds an MDS dataset, and the block has not replaced "
                "it: write with mode('overwrite'), or to another directory. What it wrote is left "
                "there as Parquet files"
            )
        new = [name for name in location.list_names() if self._is_new(name)]
        try:
            source = open_parquet(
                location.url,
                storage_options=location.storage_options,
                filesystem=location.filesystem,
            )
            source = with_declared_partitions(source, schema)
            plan = mds_plan(schema, source)
            convert_parquet(
                source,
                location,
                plan=plan.schema,
                recode=plan.recode,
                shard_size=shard_size,
                extra={UNISCHEMA_EXTRA: unischema_to_json(schema)},
                resume=False,
            )
        except (DatasetNotFoundError, DatasetExistsError):
            raise
        except MDStormError as error:
            raise PetastormMetadataGenerationError(
                f"The Parquet files in {location.url} did not become a dataset: {error}. They are "
                "left unchanged"
            ) from error
        self._remove(new)

    def _is_new(self, name: str) -> bool:
        return name not in self._before or self._before[name] != _state(self._location, name)

    def _remove(self, names: list[str]) -> None:
        """Remove Parquet files, what Spark wrote beside them, and directories of partitions."""
        removed = [name for name in names if _is_of_spark(name)]
        for name in removed:
            self._location.remove(name)
        for directory in sorted({name.partition("/")[0] for name in removed if "/" in name}):
            self._location.child(directory).remove_directory_if_empty()


def _is_of_spark(name: str) -> bool:
    file = posixpath.basename(name)
    return file.endswith((".parquet", ".crc")) or file in _SPARK_FILES


def _state(location: Location, name: str) -> Any:
    """Return a value that identifies one version of a file."""
    try:
        return location.stat(name)["size"], location.modified(name)
    except FileNotFoundError:
        return None
