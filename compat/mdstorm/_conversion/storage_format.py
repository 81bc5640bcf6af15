"""Choose the storage format of ``materialize_dataset``: Parquet or MDS."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias, cast, get_args

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.spark import read_conf

StorageFormat: TypeAlias = Literal["parquet", "mds"]

CONF = "mdstorm.materialize.storageFormat"
ENVIRONMENT_VARIABLE = "MDSTORM_MATERIALIZE_STORAGE_FORMAT"


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
