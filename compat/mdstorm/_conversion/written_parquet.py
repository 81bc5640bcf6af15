"""Describe the Parquet files that a block of code writes by metadata, or convert them to MDS."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, cast, get_args

from mdstorm._conversion.convert import mds_plan
from mdstorm._datasets.common_metadata import UNISCHEMA_EXTRA
from mdstorm._datasets.decoded_source import with_declared_partitions
from mdstorm._datasets.petastorm_metadata import (
    check_columns,
    open_written,
    write_petastorm_metadata,
)
from mdstorm._datasets.schema_json import unischema_to_json
from mdstorm.errors import (
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
    PetastormMetadataGenerationError,
)
from mdstorm.unischema import Unischema
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.spark import read_conf
from mdstorm_backend.storage import Location, modification_of

StorageFormat: TypeAlias = Literal["parquet", "mds"]

CONF = "mdstorm.materialize.storageFormat"
ENVIRONMENT_VARIABLE = "MDSTORM_MATERIALIZE_STORAGE_FORMAT"
#: What Spark writes beside the data.
_SPARK_FILES = frozenset({"_SUCCESS", "_common_metadata", "_metadata"})


def chosen_storage_format(spark: Any, argument: str | None) -> StorageFormat:
    """Return the format to write.

    The first that is set takes precedence: `argument`, the conf
    ``mdstorm.materialize.storageFormat`` of the session, the environment variable
    ``MDSTORM_MATERIALIZE_STORAGE_FORMAT``, ``"parquet"``.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        The session.
    argument : str or None
        What the caller gave.

    Raises
    ------
    InvalidArgumentError
        If it is neither ``"parquet"`` nor ``"mds"``.
    """
    given: dict[str, Any] = {
        "storage_format": argument,
        CONF: read_conf(spark, CONF),
        ENVIRONMENT_VARIABLE: os.environ.get(ENVIRONMENT_VARIABLE),
    }
    for name, value in given.items():
        if value is None or value == "":
            continue
        if value not in get_args(StorageFormat):
            raise InvalidArgumentError(f"{name} must be 'parquet' or 'mds', found {value!r}")
        return cast(StorageFormat, value)
    return "parquet"


class WrittenParquet:
    """Knows which files of a directory are new since it was made.

    Parameters
    ----------
    location : Location
        The directory, which need not be there yet.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._before = self._states()

    def describe(self, schema: Unischema, *, with_summary: bool) -> None:
        """Write Petastorm's metadata beside all Parquet files in the directory.

        Parameters
        ----------
        schema : Unischema
            What the rows were encoded by.
        with_summary : bool
            Whether to write ``_metadata``, too.

        Raises
        ------
        DatasetNotFoundError
            If there are no Parquet files; also OSError.
        DatasetExistsError
            If the directory holds a dataset of MDS, which readers would read instead.
        PetastormMetadataGenerationError
            If the schema does not describe them; no file is changed.
        """
        self._check_no_mds()
        with self._generation("were given no metadata"):
            write_petastorm_metadata(
                self._location, schema, with_summary=with_summary, files_before=self._before.keys()
            )

    def convert(self, schema: Unischema) -> None:
        """Make an MDS dataset of all Parquet files in the directory, one shard of each row group.

        After its index is written, the files that are new are removed, and what Spark wrote beside
        them. Files that were there before stay.

        Parameters
        ----------
        schema : Unischema
            What the rows were encoded by.

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
        self._check_no_mds()
        states = self._states()
        new = [name for name, state in states.items() if self._before.get(name) != state]
        with self._generation("did not become a dataset"):
            source = open_written(location)
            check_columns(source, schema)
            source = with_declared_partitions(source, schema)
            plan = mds_plan(schema, source)
            convert_parquet(
                source,
                location,
                plan=plan.schema,
                recode=plan.recode,
                cut_at="row_groups",
                extra={UNISCHEMA_EXTRA: unischema_to_json(schema)},
                resume=False,
            )
        self._remove(new)

    def _states(self) -> dict[str, tuple[int, str]]:
        """Return for each file what tells one version of it from another."""
        found = self._location.list_files()
        return {name: (info["size"], modification_of(info)) for name, info in found}

    def _check_no_mds(self) -> None:
        location = self._location
        if location.exists(INDEX_NAME):
            raise DatasetExistsError(
                f"{location.url} already holds an MDS dataset, and the block has not replaced it: "
                "write with mode('overwrite'), or to another directory. The rows that the block "
                "wrote are left there as Parquet files"
            )

    @contextmanager
    def _generation(self, failure: str) -> Iterator[None]:
        """Raise errors about the files as PetastormMetadataGenerationError."""
        try:
            yield
        except (DatasetNotFoundError, DatasetExistsError):
            raise
        except MDStormError as error:
            raise PetastormMetadataGenerationError(
                f"The Parquet files in {self._location.url} {failure}: {error}. They are left "
                "unchanged"
            ) from error

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
