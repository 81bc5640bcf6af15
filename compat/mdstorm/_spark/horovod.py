"""The check that shard arguments agree with the launcher's rank and size."""

from __future__ import annotations

import logging
import os

from mdstorm.errors import InvalidArgumentError

__all__ = ["warn_if_inconsistent"]

_VARIABLES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


def warn_if_inconsistent(cur_shard: int | None, shard_count: int | None) -> None:
    """Log a warning if a launcher's environment says another rank or size.

    Raises
    ------
    InvalidArgumentError
        If a variable is not an integer.
    """
    for rank_name, size_name in _VARIABLES:
        rank_text, size_text = os.environ.get(rank_name), os.environ.get(size_name)
        if rank_text is None and size_text is None:
            continue
        if rank_text is None or size_text is None:
            return
        try:
            rank, size = int(rank_text), int(size_text)
        except ValueError as error:
            raise InvalidArgumentError(
                f"{rank_name}={rank_text!r} and {size_name}={size_text!r} must be integers"
            ) from error
        if (cur_shard, shard_count) != (rank, size):
            _logger.warning(
                "The arguments cur_shard(%s) and shard_count(%s) is not consistent with horovod "
                "environments %s(%d) and %s(%d): pass cur_shard=hvd.rank(), shard_count=hvd.size() "
                "unless each process is to read all rows",
                cur_shard,
                shard_count,
                rank_name,
                rank,
                size_name,
                size,
            )
        return
