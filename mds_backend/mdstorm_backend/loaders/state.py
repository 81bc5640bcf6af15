"""Pass states: `write_state` makes them from a `Position`, `read_state` checks and reads them.

A state is a dict of plain JSON values, for checkpoints. It has the five keys of a MosaicML
Streaming state, and our own values under ``"mdstorm"``. It is the same on all ranks, except where
samples are not numbered across ranks: see `mdstorm_backend.order.row_plan`.

`Loader`, `ReadAhead` and the PyTorch datasets write states. `Epochs.load_state_dict` reads them,
and a worker process of a plain ``DataLoader`` reads its own state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

from mdstorm_backend.base.checks import is_integer, warn_user
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment, plan_of
from mdstorm_backend.order import DEFAULT_SEED, ROWS_UNKNOWN, Plan, Position
from mdstorm_backend.order.lanes import Lanes

#: Version of newly written states. Older versions counted or shuffled samples differently, so
#: loading their states raises StateMismatchError.
VERSION = 5

#: What earlier versions wrote for every transform of decoded images.
_ANY_TRANSFORM = "_DecodedFirst"
#: Maximum number of canonical nodes in a state; a damaged state with more could exhaust memory,
#: because each node gets at least one sample.
_MOST_NODES = 1_000_000
#: Maximum number of world changes within a state's epoch; a damaged state with more could exceed
#: the recursion limit, because each change is a level of recursion in `EpochLanes`.
_MOST_LANES = 256
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
    is_unbegun = position.epoch == 0 and position.first_epoch is None
    ours: dict[str, Any] = {
        "version": VERSION,
        "order": order.name,
        "world_size": order.world_size,
        "first_epoch": position.pass_epoch,
        "finished": options.is_last_epoch(position) and position.is_end,
        "epoch_end": position.end,
        "lanes": [list(lanes) for lanes in position.lanes],
        **_compared(options),
    }
    if not options.numbers_samples:
        ours |= {"rank": order.world.rank, "row": position.row, "batch_size": options.batch_size}
    if position.skip:
        ours["skip"] = position.skip
    return {
        "epoch": order.before_first_epoch if is_unbegun else position.epoch,
        "sample_in_epoch": position.consumed,
        **order.state_keys(position),
        "mdstorm": ours,
    }


def _compared(options: ReaderOptions) -> dict[str, Any]:
    """Return the values that must be equal when a state is taken and when it is loaded."""
    found: dict[str, Any] = {
        "dataset": options.dataset.fingerprint,
        "settings": options.order.settings(),
        **vars(options.conditions),
    }
    if options.order.is_strict:
        found["columns"] = list(options.schema.names)
        found["num_epochs"] = options.num_epochs
    return found


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
    if options.order.is_strict:
        position = _checked_position(position, ours, options)
    return position


def skipped(position: Position, batches: int, options: ReaderOptions) -> Position:
    """Return where a state resumes that is taken `batches` batches of each rank after `position`.

    Raises
    ------
    InvalidArgumentError
        If the number is not an integer of at least 0, or the pass has fewer batches left.
    StateMismatchError
        If only reading shows where batches end.
    """
    if not is_integer(batches) or batches < 0:
        raise InvalidArgumentError(
            f"skip_batches must be an integer of at least 0, found {batches!r}"
        )
    if not batches:
        return position
    begun = Segment(options, position)
    segment, count = begun.seek(batches, f"skip_batches={batches}")
    reached = segment.plan.position(segment.plan.offset_after(count) or 0)
    return read_state(write_state(options, reached), options)


def _checked_position(
    position: Position, ours: Mapping[str, Any], options: ReaderOptions
) -> Position:
    """Check a position in the exact order, and return it, with this rank's row count if known.

    Raises
    ------
    StateMismatchError
        If no pass reaches the position, or it does not describe this rank.
    """
    is_of_rank = "row" in ours
    _check_position(position, options, is_of_rank=is_of_rank)
    plan = plan_of(options, position)
    counts_own_rows = not options.numbers_samples
    if position.consumed and is_of_rank != counts_own_rows:
        raise StateMismatchError(
            f"the state counts the rows of {'one rank' if is_of_rank else 'all ranks'}, but here "
            f"the rows of {'one rank' if counts_own_rows else 'all ranks'} are counted. Readers "
            "of row groups, and transforms that may drop rows (without keeps_rows=True), count the "
            "rows of one rank. Load the state into a reader with the arguments of that run, or "
            "start again without it"
        )
    _ = plan.begin
    return _of_rank(position, ours, options, plan) if is_of_rank and counts_own_rows else position


def _ours(state: Mapping[str, Any], options: ReaderOptions) -> Mapping[str, Any] | None:
    """Return mdstorm's part of a state, or None if MosaicML Streaming wrote it (elastic order)."""
    ours, name = state.get("mdstorm"), options.order.name
    if ours is None and name == "elastic":
        return None
    if not isinstance(ours, Mapping) or ours.get("order") != name:
        raise StateMismatchError(
            f"the state was not taken in the order {name!r}, so it does not determine which "
            "samples to skip. Load it into a loader with the state's order"
        )
    version = ours.get("version")
    if not is_integer(version) or version < VERSION:
        raise StateMismatchError(
            "the state was written by an older version of mdstorm, whose states have a different "
            "format: finish the run with that version, or begin the epoch again without the state"
        )
    if version > VERSION:
        raise StateMismatchError(
            f"the state was written by a newer version of mdstorm: its version is {version!r}, "
            f"and this one reads {VERSION}. Install that version of mdstorm or a newer one"
        )
    return ours


def _check_compared(
    state: Mapping[str, Any], ours: Mapping[str, Any], options: ReaderOptions, *, is_begun: bool
) -> None:
    here, order = _compared(options), options.order
    if not (is_begun or order.is_strict):  # settings may change between epochs
        here = {key: here[key] for key in ("dataset", "rows")}
    found = {**vars(type(options.conditions)()), **ours}
    if found["transform"] == _ANY_TRANSFORM:
        found["transform"] = options.conditions.transform or _ANY_TRANSFORM
    if missing := [key for key in here if key not in found]:
        raise damaged(f"it has no {missing}")
    there: dict[str, Any] = {key: found[key] for key in here}
    for values in (here, there):
        settings = values.pop("settings", {})
        if not isinstance(settings, Mapping):
            raise damaged(f"'settings' must be a mapping, found {settings!r}")
        values |= settings
    check_equal(there, here, options.dataset.url)
    if not is_begun or not order.uses_seed or flag(ours, "finished"):
        return
    seed, seed_there = order.state_keys(Position())["shuffle_seed"], state.get("shuffle_seed")
    # A state that names no rank is the same on all ranks, and was usually taken on the first one.
    rank, rank_there = order.world.rank, ours.get("rank", 0)
    if rank == rank_there or seed in (seed_there, DEFAULT_SEED):
        return
    wrong = (
        f"the state was taken by rank {rank_there} with seed {seed_there}, and rank {rank} was "
        f"given seed {seed}: if ranks have different seeds, rows are lost and repeated. "
        "Pass the state's seed on all ranks, without adding the rank"
    )
    if order.is_strict:
        raise StateMismatchError(wrong)
    warn_user(wrong)


def lanes_of(ours: Mapping[str, Any]) -> tuple[Lanes, ...]:
    """Return the lanes in mdstorm's part of a state.

    Raises
    ------
    StateMismatchError
        If they are damaged.
    """
    found = ours.get("lanes")
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise damaged(f"'lanes' must be a list, found {found!r}")
    if len(found) > _MOST_LANES:
        raise damaged(
            f"the world changed {len(found)} times within its epoch, but at most {_MOST_LANES} "
            "changes are supported"
        )
    lanes = []
    for one in found:
        if not isinstance(one, Sequence) or len(one) != len(Lanes._fields):
            raise damaged(f"each of 'lanes' must be a list of {list(Lanes._fields)}, found {one!r}")
        values = dict(zip(Lanes._fields, one, strict=True))
        consumed, size = number(values, "consumed"), number(values, "size", 1)
        lanes.append(Lanes(consumed, size, number(values, "padded_to")))
    return tuple(lanes)


def _check_position(position: Position, options: ReaderOptions, *, is_of_rank: bool) -> None:
    """Raise StateMismatchError for a position that no pass in the exact order can reach."""
    num_rows, num_epochs = len(options.dataset), options.num_epochs
    epochs = position.epoch - position.pass_epoch
    if num_epochs is not None and epochs >= num_epochs:
        raise damaged(
            f"its epoch in the pass is {epochs}, counting from 0, but num_epochs is {num_epochs}"
        )
    if position.consumed > num_rows and not (options.drops_rows or is_of_rank):
        raise damaged(f"it is {position.consumed} samples into an epoch of {num_rows}")
    if not position.lanes:
        if 0 < position.consumed < num_rows and not (position.is_end or is_of_rank):
            raise damaged("it does not contain the lanes of its epoch: 'lanes' is empty")
        return
    starts = [lanes.consumed for lanes in position.lanes]
    if starts[0] or starts != sorted(set(starts)) or starts[-1] > position.consumed:
        raise damaged(
            f"lanes that begin after {starts} samples do not match a position after "
            f"{position.consumed} samples"
        )
    if (most := max(lanes.size for lanes in position.lanes)) > num_rows:
        raise damaged(f"it refers to {most} ranks, but there are only {num_rows} rows")


def _of_rank(
    position: Position,
    ours: Mapping[str, Any],
    options: ReaderOptions,
    plan: Plan,
) -> Position:
    """Return this rank's position, given a state that counts the rows of one rank.

    Such a state usually describes the rows of only one rank. In a pass with a single epoch, it is
    valid for all ranks as long as batches are full, because rows are counted after the transform,
    and each rank has read the same number.
    """
    order = options.order
    row, batch_size = number(ours, "row"), number(ours, "batch_size", 1)
    there = number(ours, "rank"), number(ours, "world_size", 1)
    is_full = row % batch_size == 0 and not options.by_shard
    is_of_all = options.num_epochs == 1 and is_full and not position.is_end
    is_unread = not (position.consumed or position.skip)
    is_mine = there[0] == order.world.rank or is_of_all or is_unread
    if not plan.unequal_because and position.consumed:
        is_mine = batch_size == options.batch_size  # then all ranks had the same number of batches
    if there[1] == order.world_size and is_mine:
        return replace(position, row=row)
    reason = (
        ROWS_UNKNOWN
        if options.drops_rows
        else "batches are row groups, and ranks have different numbers of them"
    )
    rank, size = order.world.rank, order.world_size
    raise StateMismatchError(
        f"the state was taken by rank {there[0]} of {there[1]} with batch_size={batch_size}, and "
        f"this is rank {rank} of {size} with batch_size={options.batch_size}. "
        f"Because {reason}, a state describes only its own rank: save each rank's state, and load "
        "it on the same rank, with the same number of ranks and the same batch_size"
    )


def _nodes(state: Mapping[str, Any], key: str) -> int | None:
    if state.get(key) is None:
        return None
    nodes = number(state, key, 1)
    if nodes > _MOST_NODES:
        raise damaged(f"{key!r} is {nodes}, but at most {_MOST_NODES} nodes are supported")
    return nodes


def state_mapping(state: object) -> Mapping[str, Any]:
    """Return `state` after checking that it has the form of a state.

    Raises
    ------
    StateMismatchError
        If it is not a state.
    """
    if not isinstance(state, Mapping):
        raise StateMismatchError(
            f"a state must be a dict that state_dict() returned, found {state!r}. To start again, "
            "do not load a state"
        )
    if not state.keys() & {"mdstorm", "sample_in_epoch"}:
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


def number(state: Mapping[str, Any], key: str, least: int = 0) -> int:
    """Return the value of a key, which must be an integer of at least `least`.

    Raises
    ------
    StateMismatchError
        If the value is missing or anything else.
    """
    value = state.get(key)
    if not is_integer(value) or value < least:
        raise damaged(f"{key!r} must be an integer of at least {least}, found {value!r}")
    return int(value)


def flag(state: Mapping[str, Any], key: str) -> bool:
    """Return the value of a key, which must be a boolean.

    Raises
    ------
    StateMismatchError
        If the value is missing or anything else.
    """
    value = state.get(key)
    if not isinstance(value, bool):
        raise damaged(f"{key!r} must be true or false, found {value!r}")
    return value


def check_equal(there: Mapping[str, Any], here: Mapping[str, Any], url: str) -> None:
    """Raise if a state belongs to a different dataset or way of reading.

    Parameters
    ----------
    there, here : mapping
        The values where the state was taken and where it is loaded; `there` may have more keys.
    url : str
        URL of the dataset.

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


def damaged(what: str) -> StateMismatchError:
    """Return the error for a state that no loader or dataset can have returned."""
    return StateMismatchError(
        f"the state cannot be continued: {what}. Load the state exactly as state_dict() returned "
        "it, or start again without it"
    )
