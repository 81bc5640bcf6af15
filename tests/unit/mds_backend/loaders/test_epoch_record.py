"""How events change a record of epochs, and where the next iteration then begins."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from tests.kit.interrupting import interrupted_at

from mdstorm_backend.loaders import epochs, shared_record
from mdstorm_backend.loaders.consumer import Consumer, Usage
from mdstorm_backend.loaders.epoch_record import EpochRecord, Joined
from mdstorm_backend.order import Position

#: Within epoch 2 of a pass that began with epoch 1, in the order of a loaded state.
WITHIN = Position(2, consumed=40, first_epoch=1, seed=7, num_canonical_nodes=4)
START = Usage(Position(5))
GROUP = (123, 1)


def begun(following: Usage = START, times: int = 1) -> tuple[EpochRecord, Usage]:
    record, usage = EpochRecord(), following
    for _ in range(times):
        record, usage = record.begin(following)
    return record, usage


def test_new_record_leaves_the_first_iteration_to_the_dataset() -> None:
    assert EpochRecord().following(None) is None


@pytest.mark.parametrize("start", [Position(5), WITHIN])
def test_begun_iteration_is_recorded_with_the_pass_that_it_begins_or_resumes(
    start: Position,
) -> None:
    before = replace(EpochRecord(), next=Position(9), packs=True, changes=3, loads=2, reached=9)
    record, usage = before.begin(Usage(start, is_first=False))
    position = replace(start, first_epoch=start.pass_epoch)
    assert vars(usage) == vars(Usage(position, False, 1, 3, 2, usage.consumer))
    assert record == EpochRecord(position, None, start.epoch, 1, Joined(), False, 3, 2)


@pytest.mark.parametrize(
    ("batches", "is_over", "is_first", "epoch", "may_peek"),
    [
        (0, False, True, 5, True),  # interrupted before its first batch
        (1, False, True, 5, False),
        (2, False, True, 6, False),
        (1, True, True, 6, False),
        (0, True, True, 6, False),  # the rank has no rows
        (1, False, False, 6, False),
    ],
)
def test_next_iteration_begins_at_the_same_position_after_a_peek(
    batches: int, is_over: bool, is_first: bool, epoch: int, may_peek: bool
) -> None:
    record, usage = begun(Usage(Position(5), is_first))
    usage.batches, usage.is_over = batches, is_over
    following = record.following(usage)
    assert following is not None
    assert (following.start.epoch, following.is_first) == (epoch, may_peek)


def test_next_iteration_begins_after_the_epoch_reached_if_the_latest_ran_in_other_processes() -> (
    None
):
    record, usage = begun()
    later, _ = record.begin(START)
    for latest in (None, usage):
        following = later.reach(usage, 7).following(latest)
        assert following is not None
        assert (following.start.epoch, following.is_first) == (8, False)


def test_iteration_that_was_not_stored_has_used_nothing() -> None:
    record, usage = begun(Usage(Position(5)))
    _, interrupted = record.begin(Usage(usage.start))
    following = record.following(interrupted)
    assert following is not None
    assert (following.start, following.is_first) == (usage.start, True)


def test_worker_joins_the_iteration_of_its_group_once() -> None:
    record, first = EpochRecord().begin(START, GROUP, 0)
    record = record.set_next(Position(9)).enter(first, Position(6, first_epoch=5))
    joined, second = record.begin(Usage(Position(9)), GROUP, 1)
    assert (second.start, second.number, second.changes) == (first.start, 1, 0)
    assert joined == replace(record, joined=Joined(GROUP, (0, 1), first.start, 0))
    for group, worker in [(GROUP, 1), ((123, 2), 0), (None, 0)]:
        other, third = joined.begin(Usage(Position(9)), group, worker)
        workers = () if group is None else (worker,)
        assert (other.joined.workers, third.number, third.start.epoch) == (workers, 2, 9)


def test_entered_epoch_is_where_the_latest_iteration_has_begun() -> None:
    record, usage = begun()
    record = record.pack()
    assert record.packs
    assert record.pack() is record
    same, later = Position(5, consumed=10, first_epoch=5), Position(6, first_epoch=5)
    assert record.enter(usage, same) == replace(record, epoch_start=same)
    assert record.enter(usage, later) == replace(record, epoch_start=later, packs=False, reached=6)
    assert record.enter(usage, Position(4)) is record


@pytest.mark.parametrize(
    "then", [lambda r: r.begin(START)[0], lambda r: r.load(WITHIN, WITHIN)], ids=["begun", "loaded"]
)
def test_earlier_iteration_does_not_determine_the_latest_epoch(
    then: Callable[[EpochRecord], EpochRecord],
) -> None:
    record, usage = begun()
    record = then(record)
    assert record.enter(usage, Position(6)).epoch_start == record.epoch_start


def test_iteration_begun_before_a_change_does_not_determine_the_epoch_reached() -> None:
    record, usage = begun()
    assert record.reach(usage, 8).reached == 8
    assert record.reach(usage, 8).reach(usage, 6).reached == 8
    changed = record.set_next(Position(1))
    assert changed.reach(usage, 8) is changed


def test_set_epoch_is_next_and_counts_as_a_change() -> None:
    record, usage = begun()
    changed = record.set_next(Position(3))
    assert changed == replace(record, next=Position(3), changes=1)
    following = changed.following(usage)
    assert following is not None
    assert (following.start, following.is_first) == (Position(3), True)


@pytest.mark.parametrize("workers", [(), (2,)])
def test_loaded_state_replaces_the_running_iteration(workers: tuple[int, ...]) -> None:
    record, _ = EpochRecord(packs=True).begin(START, GROUP, 0)
    record = replace(record, packs=True).load(WITHIN, Position(3), workers)
    expected = EpochRecord(WITHIN, Position(3), 5, 1, Joined(workers=workers), False, 1, 1)
    assert record == expected


def test_order_of_a_state_is_forgotten_unless_its_pass_has_yet_to_resume() -> None:
    loaded = EpochRecord().load(WITHIN, WITHIN)
    assert loaded.forget_order(None) is loaded
    assert EpochRecord().forget_order(None) == EpochRecord()
    plain = Position(2, consumed=40, first_epoch=1)
    assert replace(loaded, epoch_start=None).forget_order(None).next == plain
    record, usage = loaded.begin(Usage(WITHIN))
    assert record.forget_order(usage) is record  # as after a peek
    usage.batches = 2
    assert record.forget_order(usage).next == Position(3)


def test_copy_of_a_record_begins_where_the_process_would_without_its_workers() -> None:
    assert EpochRecord().copied(None) == EpochRecord()
    record, usage = EpochRecord().begin(START, GROUP, 0)
    usage.consumer = Consumer(peek=0)
    usage.batches = 1
    expected = replace(record, next=Position(6), joined=Joined())
    assert record.copied(None) == record.copied(usage) == expected


@pytest.mark.parametrize("peeked", [False, True])
def test_iteration_interrupted_while_it_begins_does_not_use_up_an_epoch(peeked: bool) -> None:
    for number in count(1):
        found, has_ended = epochs.Epochs(), False
        if peeked:
            found.begin(Consumer()).batches = 1
        with (
            suppress(KeyboardInterrupt),
            interrupted_at(number, epochs.__file__, shared_record.__file__),
        ):
            found.begin(Consumer())
            has_ended = True
        assert found.following().start.epoch == 0, number
        if has_ended:
            break
    assert number > 10
