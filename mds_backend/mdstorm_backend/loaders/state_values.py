"""Check the values of a state that comes back from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from mdstorm_backend.base.integers import is_integer
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order.exact import DEFAULT_SEED

#: Of the states that are written. The first version had no such key.
VERSION = 2


def check_version(ours: Mapping[str, Any]) -> None:
    """Refuse a state of a later version, whose keys may mean something else.

    Raises
    ------
    StateMismatchError
        If it is of one.
    """
    version = ours.get("version", 1)
    if not is_integer(version) or version > VERSION:
        raise StateMismatchError(
            f"the state was written by a newer version of mdstorm: its version is {version!r}, "
            f"and this one reads up to {VERSION}. Install that version, or a newer one"
        )


def state_mapping(state: object) -> Mapping[str, Any]:
    """Return a state.

    Raises
    ------
    StateMismatchError
        If it is none.
    """
    if not isinstance(state, Mapping):
        raise StateMismatchError(
            f"a state is the dict that state_dict() returned, found {state!r}. To start again, "
            "load no state"
        )
    _check_plain(state)
    return state


def _check_plain(value: object) -> None:
    """Refuse arrays and whatever else no state holds, which cannot be compared with it."""
    if isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_plain(each)
    elif not isinstance(value, (str, bool, float, NoneType)) and not is_integer(value):
        raise damaged(f"it holds {value!r}, and states hold only what JSON does")


def number(state: Mapping[str, Any], key: str, least: int = 0) -> int:
    """Return an integer of at least `least`.

    Raises
    ------
    StateMismatchError
        If it is none.
    """
    value = state.get(key)
    if not is_integer(value) or value < least:
        raise damaged(f"{key!r} has to be an integer from {least} on, found {value!r}")
    return int(value)


def flag(state: Mapping[str, Any], key: str) -> bool:
    """Return a boolean.

    Raises
    ------
    StateMismatchError
        If it is none.
    """
    value = state.get(key)
    if not isinstance(value, bool):
        raise damaged(f"{key!r} has to be true or false, found {value!r}")
    return value


def check_epoch(epoch: object) -> None:
    """Refuse what numbers no epoch.

    Raises
    ------
    InvalidArgumentError
        If it is not an integer of at least 0.
    """
    if not is_integer(epoch) or epoch < 0:
        raise InvalidArgumentError(f"an epoch must be an integer of at least 0, found {epoch!r}")


def check_equal(there: Mapping[str, Any], here: Mapping[str, Any], url: str) -> None:
    """Refuse a state of another reading.

    Parameters
    ----------
    there, here : mapping
        What has to be equal where the state was taken and where it is loaded; `there` may have
        more.
    url : str
        The dataset.

    Raises
    ------
    StateMismatchError
        If something is not.
    """
    wrong = [
        f"{name}: {there.get(name)!r} there, {value!r} here"
        for name, value in here.items()
        if there.get(name) != value
    ]
    if wrong:
        raise StateMismatchError(
            f"the state was taken from another reading of {url} or from another dataset "
            f"({'; '.join(wrong)}). Create a loader with the same arguments over the same dataset"
        )


def other_seed(
    ours: Mapping[str, Any], seed_there: int | None, seed_here: int | None, rank: int
) -> str:
    """Say that this rank was given another seed than the one that took a state; empty if not.

    States that name no rank are the same on all, and taken on the first one as a rule.
    """
    rank_there = ours.get("rank", 0)
    if rank_there == rank or seed_here in (seed_there, DEFAULT_SEED):
        return ""
    return (
        f"the state was taken by rank {rank_there} with seed {seed_there}, and rank {rank} was "
        f"given seed {seed_here}: where each rank has a seed of its own, rows are lost and "
        "repeated. Give all ranks the one of the state, without adding the rank"
    )


def reading_values(options: ReaderOptions) -> dict[str, Any]:
    """Return what has to be the same where a state is taken and where it is loaded."""
    order = options.exact_order
    return {
        "shuffle": [order.shuffle_shards, order.shuffle_rows, order.window],
        "dataset": options.dataset.fingerprint,
        "columns": list(options.schema.names),
        "transform": options.transform is not None,
        "num_epochs": options.num_epochs,
    }


def check_reading(ours: Mapping[str, Any], options: ReaderOptions) -> None:
    """Refuse a state of another reading in the exact order.

    Raises
    ------
    StateMismatchError
        If something differs, or the state does not say.
    """
    here = reading_values(options)
    if missing := [key for key in here if key not in ours]:
        raise damaged(f"it has no {missing}")
    check_equal(ours, here, options.dataset.url)


def damaged(what: str) -> StateMismatchError:
    """Return the error for a state that no loader has written."""
    return StateMismatchError(
        f"the state cannot be continued: {what}. Load the state exactly as state_dict() returned "
        "it, or start again without it"
    )
