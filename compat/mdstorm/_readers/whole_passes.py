"""Warn that each of several processes reads all rows."""

from __future__ import annotations

import logging

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.order import find_world

_logger = logging.getLogger(__name__)
_warned = False


def warn_of_whole_passes() -> None:
    """Log a warning if there are several processes, once in this one.

    What the launcher says and makes no sense is logged too: nothing that is read depends on it.
    """
    global _warned
    if _warned:
        return
    try:
        world = find_world()
    except InvalidArgumentError as error:
        seen = str(error)
    else:
        if world.size == 1:
            return
        seen = f"this is process {world.rank} of {world.size}, say {world.source}"
    _warned = True
    _logger.warning(
        "Every process reads all rows, because cur_shard and shard_count are not given (%s). Pass "
        'cur_shard="auto" for a share of the rows in each process, or cur_shard=0, shard_count=1 '
        "if each is to read them all",
        seen,
    )
