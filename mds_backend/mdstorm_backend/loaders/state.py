"""Pass states: `write_state` makes them from a `Position`, `read_state` checks and reads them.

A state is a dict of plain JSON values, for checkpoints. It has the five keys of a MosaicML
Streaming state, and our own values under ``"mdstorm"``. It is the same on all ranks, except where
samples are not numbered across ranks: see `mdstorm_backend.order.row_plan`.

`Loader`, `ReadAhead` and the PyTorch datasets write states. `Epochs.load_state_dict` reads them,
and a worker process of a plain ``DataLoader`` reads its own state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import NoneType
from typing import Any

from mdstorm_backend.base.checks import is_integer
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order import Position
from mdstorm_backend.order.state_values import damaged, flag, lanes_of, number

#: A mapping with one of these keys is a state.
_KEYS_OF_STATES = frozenset({"mdstorm", "sample_in_epoch"})
#: What earlier versions wrote for every transform of decoded images.
_ANY_TRANSFORM = "_DecodedFirst"
#: Maximum number of canonical nodes in a state; a damaged state with more could exhaust memory,
#: because each node gets at least one sample.
_MOST_NODES = 1_000_000
#: Maximum nesting depth of the mappings and lists in a state; a deeper state is damaged.
_MOST_LEVELS = 32


def write_state(options: ReaderOptions, position: Position) -> dict[str, Any]:
    """Return the state of a pass at the given position.

    Parameters
    ----------
    options : ReaderOptions
        How the pass is read; the share of the rows must be known.
    position : Position
        The position.

    Raises
    ------
    StateMismatchError
        If no pass can resume at the position.
    """
    if position.reason:
        raise StateMismatchError(position.reason)
    order = options.order
    ours: dict[str, Any] = {
        "version": order.state_versions[-1],
        "order": order.name,
        "world_size": order.world_size,
        "first_epoch": position.pass_epoch,
        "finished": options.is_last_epoch(position) and position.is_end,
        "epoch_end": position.end,
        "lanes": [list(lanes) for lanes in position.lanes],
        "num_epochs": options.num_epochs,  # in some orders only for `trace_of_state`
        **options.compared(),
        **options.first_plan.state_keys(position),
    }
    if options.batch_size > 1:  # 1 may mean single samples; also for `trace_of_state`
        ours["batch_size"] = options.batch_size
    if position.skip:
        ours["skip"] = position.skip
    return {
        "epoch": position.epoch,
        "sample_in_epoch": position.consumed,
        **order.state_keys(position),
        "mdstorm": ours,
    }


def read_state(
    state: object,
    options: ReaderOptions,
    *,
    of_worker: bool = False,
    splits: bool = True,
) -> Position:
    """Return the position at which a state resumes.

    Parameters
    ----------
    state : object
        A state made by `write_state` or, in the elastic order, by MosaicML Streaming.
    options : ReaderOptions
        How the pass is to be read; the share of the rows must be known.
    of_worker : bool
        Whether the state belongs to a worker process.
    splits : bool
        Whether the state may be within a batch.

    Raises
    ------
    StateMismatchError
        If the state belongs to a different dataset or way of reading, or is not a state.
    NoDataAvailableError
        If too few rows remain for this world.
    """
    state = state_mapping(state)
    ours = _ours(state, options)
    epoch, consumed = number(state, "epoch", -1), number(state, "sample_in_epoch")
    if ours is not None:
        _check_compared(state, ours, options, is_begun=consumed > 0 or of_worker)
    skip = 0 if ours is None or "skip" not in ours else number(ours, "skip")
    if skip and not splits:
        raise StateMismatchError(
            f"the state was taken after {skip} items of a batch, as by make_reader, but here whole "
            "batches are read: load it into a reader with the arguments of that run, or start "
            "again without it"
        )
    if epoch < 0:
        if consumed:
            raise damaged(f"it has {consumed} samples of epoch {epoch}, before the first epoch")
        # The state was taken before the first epoch, so the arguments and the world determine how
        # it begins.
        return Position()
    position = Position(
        epoch,
        consumed,
        seed=None if state.get("shuffle_seed") is None else number(state, "shuffle_seed"),
        # States of old versions of MosaicML Streaming do not have all of these keys.
        num_canonical_nodes=_nodes(state, "num_canonical_nodes"),
        initial_physical_nodes=_nodes(state, "initial_physical_nodes"),
    )
    if ours is None:
        return position
    first_epoch, size = number(ours, "first_epoch"), number(ours, "world_size", 1)
    if first_epoch > epoch:
        raise damaged(f"its pass began with epoch {first_epoch}, but it is in epoch {epoch}")
    end = None if ours.get("epoch_end") is None else number(ours, "epoch_end")
    if end is not None and consumed > end:
        raise damaged(f"it is {consumed} samples into an epoch that ends after {end}")
    if flag(ours, "finished"):
        if not consumed:
            return position.beginning_of(epoch + 1)
        end = consumed
    position = replace(position, first_epoch=first_epoch, end=end, lanes=lanes_of(ours), skip=skip)
    if skip and size != options.order.world_size:
        raise StateMismatchError(
            f"the state was taken after {skip} items of a batch on each of {size} ranks, but "
            f"there are {options.order.world_size} ranks here: load it on {size} ranks"
        )
    return options.plan(position).resumed(ours)


def _ours(state: Mapping[str, Any], options: ReaderOptions) -> Mapping[str, Any] | None:
    """Return mdstorm's part of a state, or None if MosaicML Streaming wrote it."""
    ours, name = state.get("mdstorm"), options.order.name
    if ours is None and options.order.reads_foreign:
        return None
    if not isinstance(ours, Mapping) or ours.get("order") != name:
        raise StateMismatchError(
            f"the state was not taken in the order {name!r}, so it does not determine which "
            "samples to skip. Load it into a loader with the state's order"
        )
    version, versions = ours.get("version"), options.order.state_versions
    if not is_integer(version) or version < versions[0]:
        raise StateMismatchError(
            "the state was written by an older version of mdstorm, whose states have a different "
            "format: finish the run with that version, or begin the epoch again without the state"
        )
    if version > versions[-1]:
        raise StateMismatchError(
            f"the state was written by a newer version of mdstorm: its version is {version!r}, "
            f"and this one reads {versions[-1]}. Install that version of mdstorm or a newer one"
        )
    return ours


def _check_compared(
    state: Mapping[str, Any], ours: Mapping[str, Any], options: ReaderOptions, *, is_begun: bool
) -> None:
    order, here = options.order, options.compared()
    here = here if is_begun else dict(order.compared_between_epochs(here))
    found = {**vars(type(options.conditions)()), **ours}
    if found["transform"] == _ANY_TRANSFORM:
        found["transform"] = options.conditions.transform or _ANY_TRANSFORM
    if missing := [key for key in here if key not in found]:
        raise damaged(f"it has no {missing}")
    there: dict[str, Any] = {key: found[key] for key in here}
    if options.dataset.former and there.get("dataset") == options.dataset.former:
        there["dataset"] = here["dataset"]
    for values in (here, there):
        settings = values.pop("settings", {})
        if not isinstance(settings, Mapping):
            raise damaged(f"'settings' must be a mapping, found {settings!r}")
        values |= order.settings_of(settings)
    check_equal(there, here, options.dataset.url, options.dataset.stored.table_version)
    if is_begun and order.uses_seed and not flag(ours, "finished"):
        # A state that names no rank is the same on all ranks, and was usually taken on the first.
        order.check_seed(state.get("shuffle_seed"), ours.get("rank", 0))


def _nodes(state: Mapping[str, Any], key: str) -> int | None:
    if (nodes := state.get(key)) is None:
        return None
    if is_integer(nodes) and nodes > _MOST_NODES:
        raise damaged(f"{key!r} is {nodes}, but at most {_MOST_NODES} nodes are supported")
    return number(state, key, 1)


def state_mapping(state: object) -> Mapping[str, Any]:
    """Return `state` after checking that it has the form of a state.

    Raises
    ------
    StateMismatchError
        If it is not a state.
    """
    if isinstance(state, (str, bytes)):
        raise StateMismatchError(
            "a state must be a dict that state_dict() returned, found text: parse it with "
            "json.loads(…)"
        )
    if not isinstance(state, Mapping):
        raise StateMismatchError(
            f"a state must be a dict that state_dict() returned, found {state!r}. To start again, "
            "do not load a state"
        )
    if not state.keys() & _KEYS_OF_STATES:
        for key, value in state.items():
            if isinstance(value, Mapping) and value.keys() & _KEYS_OF_STATES:
                raise StateMismatchError(
                    f"this dict contains a state, but is not a state: pass its value of {key!r}"
                )
        raise StateMismatchError(
            f"this dict, with the keys {list(state)}, is not a state: a state is the whole dict "
            "returned by state_dict() of a loader or dataset. Save that dict with the model, and "
            "load it unchanged"
        )
    _check_plain(state)
    return state


def _check_plain(value: object, levels: int = _MOST_LEVELS) -> None:
    """Raise StateMismatchError for values that JSON cannot hold, such as arrays."""
    if isinstance(value, (Mapping, list, tuple)):
        if not levels:
            raise damaged(f"its lists and mappings are nested more than {_MOST_LEVELS} levels deep")
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_plain(each, levels - 1)
    elif not isinstance(value, (str, bool, float, NoneType)) and not is_integer(value):
        raise damaged(f"it holds {value!r}, but a state contains only JSON values")


def check_equal(
    there: Mapping[str, Any], here: Mapping[str, Any], url: str, table_version: int | None = None
) -> None:
    """Raise if a state belongs to a different dataset or way of reading.

    Parameters
    ----------
    there, here : mapping
        The values where the state was taken and where it is loaded; `there` may have more keys.
    url : str
        URL of the dataset.
    table_version : int, optional
        The version of a table.

    Raises
    ------
    StateMismatchError
        If values differ.
    """
    wrong = [
        f"{name}: {there.get(name)!r} there, {value!r} here"
        for name, value in here.items()
        if there.get(name) != value
    ]
    if wrong:
        remedy = "Create a loader with the same arguments over the same dataset"
        if there.get("rows") != here.get("rows"):
            remedy += ", and pass the same rows= and where="
        elif there.get("dataset") != here.get("dataset") and table_version is not None:
            remedy += (
                f". Version {table_version} of the table has been opened, and the state was taken "
                "from another one: pass version= with the version of that run"
            )
        elif there.get("dataset") != here.get("dataset"):
            remedy += (
                ". A converter that has converted the data again has created a different dataset: "
                "pass the same cache_key= to make_spark_converter in each process, so that all "
                "processes read the first copy"
            )
        raise StateMismatchError(
            f"the state was taken with different arguments for {url} or from a different dataset "
            f"({'; '.join(wrong)}). {remedy}"
        )
