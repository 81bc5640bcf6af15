"""The history of a pass in a state: see `mdstorm_backend.order.history`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.state_values import check_equal, damaged, flag, number
from mdstorm_backend.order.history import History, Segment
from mdstorm_backend.order.shares import Place


def history_dict(history: History | None) -> dict[str, Any] | None:
    """Return a history in plain values."""
    if history is None:
        return None
    return {
        "epoch": history.first_epoch,
        "rows_left": list(history.rows_left),
        "segments": [segment._asdict() for segment in history.segments],
    }


def read_history(
    state: Mapping[str, Any], ours: Mapping[str, Any], options: ReaderOptions
) -> History:
    """Read what `history_dict` wrote, and check that it leads to where the state stands.

    Parameters
    ----------
    state, ours : mapping
        A state in the middle of a pass, and our part of it.
    options : ReaderOptions
        How to go on reading.

    Raises
    ------
    StateMismatchError
        If it is no history of this dataset, or contradicts the rest of the state.
    """
    first_epoch = number(ours, "first_epoch")
    place = Place(number(state, "epoch"), number(ours, "row"))
    num_rows, num_epochs = len(options.dataset), options.num_epochs
    stop_epoch = None if num_epochs is None else first_epoch + num_epochs
    world_size = number(ours, "world_size", 1)
    last = Segment(world_size, number(ours, "batch_size", 1), number(ours, "batches"))
    if "history" not in ours:
        history = History(first_epoch, stop_epoch, (last,))
        return _of_first_version(history, place, options)
    there = ours["history"]
    if there is None:
        raise StateMismatchError(
            "the state was taken by a reader of row groups, which does not know what other ranks "
            "have had: load it into a reader of the same kind, on the same rank, or start again "
            "without it"
        )
    if not isinstance(there, Mapping):
        raise damaged(f"'history' has to be a mapping, found {there!r}")
    begun_epoch = number(there, "epoch", first_epoch)
    history = History(begun_epoch, stop_epoch, _segments(there, num_rows), _rows_left(there))
    if history.segments[-1][:3] != last[:3]:
        raise damaged(f"its history ends with {history.segments[-1]}, and it stands at {last}")
    _check_lengths(history, num_rows)
    _check_place(history, place, number(ours, "rank"), num_rows)
    samples = number(state, "sample_in_epoch")
    if samples != (delivered := history.delivered_of(place.epoch, num_rows)):
        raise damaged(f"{samples} samples of the epoch were delivered, and by batches {delivered}")
    return history


def refuse_other_shares(history: History) -> None:
    """Refuse a history that does not begin with this rank's even share of a whole pass.

    Raises
    ------
    StateMismatchError
        If what was left was split anew, or if shares were padded.
    """
    if len(history.segments) > 1 or history.rows_left or history.segments[0].padded:
        raise StateMismatchError(
            "the state was taken from a loader whose rows are not this rank's share of an epoch, "
            "because it had resumed in another world or with another batch size, or Accelerate "
            "had prepared it. Load it into such a loader, since row groups need the whole share; "
            "or start again"
        )


def _check_place(history: History, place: Place, rank: int, num_rows: int) -> None:
    """Refuse a place other than the one to which the batches lead."""
    places = history.places(num_rows)
    if rank >= len(places) or places[rank] != place:
        raise damaged(
            f"by its batches rank {rank} of {len(places)} does not stand at row {place.row} of "
            f"epoch {place.epoch}"
        )


def _segments(there: Mapping[str, Any], num_rows: int) -> tuple[Segment, ...]:
    found = there.get("segments")
    if not isinstance(found, Sequence) or not found or not all(isinstance(s, dict) for s in found):
        raise damaged(f"'segments' has to be a list of mappings, found {found!r}")
    segments = tuple(
        Segment(
            number(segment, "world_size", 1),
            number(segment, "batch_size", 1),
            number(segment, "batches"),
            flag(segment, "drop_last"),
            flag(segment, "padded"),
        )
        for segment in found
    )
    largest = max(segment.world_size for segment in segments)
    if largest > num_rows > 0:
        raise damaged(f"it names {largest} ranks, and there are {num_rows} rows")
    return segments


def _rows_left(there: Mapping[str, Any]) -> tuple[int, ...]:
    found = there.get("rows_left")
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise damaged(f"'rows_left' has to be a list, found {found!r}")
    return tuple(number({"rows_left": rows}, "rows_left") for rows in found)


def _check_lengths(history: History, num_rows: int) -> None:
    """Refuse more batches, or epochs, than a pass has."""
    if any(rows > num_rows for rows in history.rows_left):
        raise damaged(f"{history.rows_left} rows of epochs of {num_rows} cannot be left")
    if history.stop_epoch is None:
        return
    epochs = history.stop_epoch - history.first_epoch
    if len(history.rows_left) > epochs:
        raise damaged(f"{history.rows_left} rows of {epochs} epochs cannot be left")
    remaining = replace(history, segments=()).remaining(num_rows)
    for segment in history.segments:
        if segment.batches > (most := remaining.num_batches(segment)):
            raise damaged(f"{segment.batches} batches were delivered of {most}")
        remaining = remaining.after(segment)


def _of_first_version(history: History, place: Place, options: ReaderOptions) -> History:
    """Return the history of a state that says only where its rank stood, in this world."""
    order, url = options.exact_order, options.dataset.url
    (segment,) = history.segments
    check_equal({"world_size": segment.world_size}, {"world_size": order.world_size}, url)
    began = history.without_last().remaining(len(options.dataset))
    if place in began.places(segment):
        return history
    # Its batch size has changed on the way.
    rows = began.rows_of(order.rank, order.split)
    row = min(place.row, rows.of_epoch(place.epoch))
    delivered = rows.before(place._replace(row=row))
    return History(
        history.first_epoch, history.stop_epoch, (Segment(order.world_size, 1, delivered),)
    )
