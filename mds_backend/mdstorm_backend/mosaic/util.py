"""MosaicML Streaming's small functions and constants, including those for distributed training.

Rank and world size are those of the loaders: see `mdstorm_backend.order.find_world`. MosaicML
Streaming reads only torchrun's variables. Nothing here creates a process group.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mdstorm_backend.base import require
from mdstorm_backend.elastic import partition, shuffle
from mdstorm_backend.elastic.sampling import count_of, samples_per_shard
from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format import INDEX_NAME, parse_size
from mdstorm_backend.order import find_world
from mdstorm_backend.spark.dataframe_to_mds import plan_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: MosaicML Streaming's default ``timeout`` of downloads, in seconds; the argument is ignored here.
DEFAULT_TIMEOUT = 60.0

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Errors = type[Exception] | Sequence[type[Exception]]

_logger = logging.getLogger(__name__)

get_partitions = partition
get_sampling = samples_per_shard
get_shuffle = shuffle
#: Each function is `get_partitions` with its first argument, the algorithm, fixed.
get_partitions_orig = functools.partial(get_partitions, "orig")
get_partitions_relaxed = functools.partial(get_partitions, "relaxed")
#: Each function is `get_shuffle` with its first argument, the algorithm, fixed.
get_shuffle_naive = functools.partial(get_shuffle, "naive")
get_shuffle_py1br = functools.partial(get_shuffle, "py1br")
get_shuffle_py1e = functools.partial(get_shuffle, "py1e")
get_shuffle_py1s = functools.partial(get_shuffle, "py1s")
get_shuffle_py2s = functools.partial(get_shuffle, "py2s")


def get_list_arg(text: str) -> list[str]:
    """Split a command-line list argument at its commas; an empty string gives an empty list."""
    return text.split(",") if text else []


def bytes_to_int(bytes_str: float | str) -> int:
    """Return the number of bytes in a size, given as a number or a string such as ``"1.5mb"``.

    A kilobyte has 1024 bytes; case and whitespace do not matter.

    Raises
    ------
    InvalidArgumentError
        If `bytes_str` is not a size. A `ValueError`.
    """
    try:
        return parse_size(bytes_str)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"Unsupported value/suffix {bytes_str!r}: {error}") from error


def number_abbrev_to_int(abbrev_str: float | str) -> int:
    """Return the integer for a number or a string such as ``"1.5m"``.

    ``k``, ``m``, ``b`` and ``t`` are thousands, millions, billions and trillions; case and
    whitespace do not matter. Fractions are truncated.

    Raises
    ------
    InvalidArgumentError
        If `abbrev_str` is not a number. A `ValueError`.
    """
    if not isinstance(abbrev_str, str):
        return int(abbrev_str)
    return count_of("Unsupported value/suffix: abbrev_str", abbrev_str)


@overload
def retry(exc_class: _Function) -> _Function: ...
@overload
def retry(
    exc_class: _Errors = ...,
    clean_up_fn: Callable[[], Any] | None = ...,
    num_attempts: int = ...,
    initial_backoff: float = ...,
    max_jitter: float = ...,
) -> Callable[[_Function], _Function]: ...
def retry(
    exc_class: Any = Exception,
    clean_up_fn: Callable[[], Any] | None = None,
    num_attempts: int = 3,
    initial_backoff: float = 1.0,
    max_jitter: float = 0.5,
) -> Any:
    """Decorate a function so that it is retried when it fails; also usable without parentheses.

    Parameters
    ----------
    exc_class : exception class or sequence of exception classes
        The errors to retry after.
    clean_up_fn : callable, optional
        Called after each of these errors.
    num_attempts : int
        Maximum number of calls to the function. The last error is raised.
    initial_backoff : float
        Seconds to wait after the first failure; doubled after each further failure.
    max_jitter : float
        Maximum number of random seconds added to each wait.

    Raises
    ------
    InvalidArgumentError
        If `num_attempts` is less than one. A `ValueError`.
    """
    if not isinstance(exc_class, (type, Sequence)):
        return retry()(exc_class)
    if num_attempts < 1:
        raise InvalidArgumentError(f"num_attempts must be at-least 1, found {num_attempts!r}")
    errors = (exc_class,) if isinstance(exc_class, type) else tuple(exc_class)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for attempt in range(1, num_attempts + 1):
                try:
                    return function(*args, **kwargs)
                except errors as error:
                    _logger.debug("attempt %d of %d failed: %r", attempt, num_attempts, error)
                    if clean_up_fn is not None:
                        clean_up_fn()
                    if attempt == num_attempts:
                        raise
                time.sleep(initial_backoff * 2 ** (attempt - 1) + random.random() * max_jitter)
            return None

        return call

    return decorate


@functools.cache
def clean_stale_shared_memory() -> None:
    """Do nothing, because mdstorm does not keep anything in shared memory.

    Processes coordinate through files and locks, which are released when a process ends. The first
    call logs a message at debug level.
    """
    _logger.debug("clean_stale_shared_memory does nothing: mdstorm uses no shared memory")


def get_import_exception_message(package_name: str, extra_deps: str) -> str:
    """Return a message that says which library is missing and how to install it."""
    install = f'pip install "mdstorm[{extra_deps}]"'
    return f"{package_name} is not installed. Install it with: {install}"


def get_index_basename() -> str:
    """Return the file name of every index, ``index.json``."""
    return INDEX_NAME


def infer_dataframe_schema(
    dataframe: DataFrame, user_defined_cols: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Return the encodings with which `dataframe_to_mds` stores a DataFrame, or check given ones.

    Parameters
    ----------
    dataframe : pyspark.sql.DataFrame
        The DataFrame, whose schema is all that is used.
    user_defined_cols : dict of str to str, optional
        Encodings to check.

    Returns
    -------
    dict of str to str, or None
        The encoding of each column; None if `user_defined_cols` is given and valid.

    Raises
    ------
    InvalidArgumentError
        If a column is unknown, or has a type that no encoding, or not its own encoding, can store.
        A `ValueError`.
    """
    fields = dataframe.schema.jsonValue()["fields"]
    try:
        schema = plan_columns(fields, user_defined_cols)
    except UnsupportedTypeError as error:
        raise InvalidArgumentError(f"not supported by dataframe_to_mds: {error}") from error
    if user_defined_cols is not None:
        return None
    return {column.name: column.encoding for column in schema}


_Object = TypeVar("_Object")


def get_rank() -> int:
    """Return the rank of this process, or 0 without a launcher."""
    return find_world().rank


def get_world_size() -> int:
    """Return the number of processes that train together, or 1 without a launcher."""
    return find_world().size


def get_local_rank() -> int:
    """Return the rank of this process on its node, or 0 without a launcher."""
    return int(os.environ.get("LOCAL_RANK") or find_world().local_rank)


def get_local_world_size() -> int:
    """Return the number of processes on this node, or 1 without a launcher."""
    return int(os.environ.get("LOCAL_WORLD_SIZE") or find_world().local_size)


def barrier() -> None:
    """Wait for all processes in the group; do nothing without a group."""
    if (group := _group()) is not None:
        group.barrier()


def all_gather_object(obj: _Object) -> list[_Object]:
    """Return the objects of all ranks, which must be picklable.

    Raises
    ------
    RuntimeError
        If the world has several processes and no process group.
    """
    if (group := _group()) is not None:
        gathered: list[Any] = [None] * group.get_world_size()
        group.all_gather_object(gathered, obj)
        return gathered
    world = find_world()
    if world.size == 1 and not world.unknown:
        return [obj]
    raise RuntimeError(
        "the world has several processes and no process group to gather objects with: call "
        "torch.distributed.init_process_group first"
    )


def _group() -> Any:
    """Return `torch.distributed` if there is a process group, otherwise None."""
    group = require("torch").distributed
    return group if group.is_available() and group.is_initialized() else None
