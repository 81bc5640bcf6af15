"""`Reader`, a cursor over a dataset: iteration, end, reset, stop, and statistics."""

import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.readers import ItemReader, batch_reader, row_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm.errors import NoMatchingFieldsError, NotPicklableError, UnsupportedArgumentError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader import Reader
from mdstorm_backend import MDSWriter


def numbers(items: Any) -> list[int]:
    return [int(n) for item in items for n in np.atleast_1d(item.number)]


def test_constructing_the_reader_class_directly_raises_error() -> None:
    class Own(Reader):
        pass

    by_hand: Any = Own
    with pytest.raises(UnsupportedArgumentError, match="call make_reader or make_batch_reader"):
        by_hand(None, "/data", is_batched_reader=True)
    with pytest.raises(UnsupportedArgumentError, match="call make_reader or make_batch_reader"):
        by_hand(pyarrow_filesystem=None, dataset_path="/data")


def test_stop_ends_threads_immediately(ten: str) -> None:
    before = threading.enumerate()
    reader = batch_reader(ten, num_epochs=None)
    next(reader)
    ours = set(threading.enumerate()) - set(before)
    assert ours
    reader.stop()
    assert not any(thread.is_alive() for thread in ours)


def test_stopping_a_reader_frees_memory(ten: str) -> None:
    with batch_reader(ten) as reader:
        list(reader)
        assert reader.dataset.find_open(2) is not None
    assert reader.dataset.find_open(2) is None


def test_dummy_pool_starts_no_threads(ten: str) -> None:
    names = []

    def note(frame: Any) -> Any:
        names.append(threading.current_thread().name)
        return frame

    with batch_reader(ten, reader_pool_type="dummy", transform_spec=TransformSpec(note)) as reader:
        next(reader)
        assert names == ["MainThread"]  # one call, so nothing was read ahead


def test_mds_dataset_without_samples_raises_error(tmp_path: Path) -> None:
    MDSWriter(out=str(tmp_path), columns={"id": "int64"}).finish()
    with pytest.raises(NoMatchingFieldsError, match="no columns, because no sample was written"):
        batch_reader(f"file://{tmp_path}")


def test_function_error_is_raised_again_on_the_next_read(ten: str) -> None:
    def fail_late(frame: Any) -> Any:
        return frame if frame.number[0] == 0 else frame.no_such_column

    with batch_reader(ten, transform_spec=TransformSpec(fail_late)) as reader:
        next(reader)
        for _ in range(2):
            with pytest.raises(AttributeError, match="no_such_column"):
                next(reader)
        assert not reader.last_row_consumed


@pytest.mark.parametrize("make", [batch_reader, row_reader])
def test_reader_continues_after_keyboard_interrupt(ten: str, make: Any) -> None:
    calls = iter(range(1000))

    def interrupted_once(given: Any) -> Any:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return given

    spec = TransformSpec(interrupted_once)
    with make(ten, reader_pool_type="dummy", num_epochs=3, transform_spec=spec) as reader:
        found: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            found.extend(int(n) for item in reader for n in np.atleast_1d(item.number))
        assert 0 < len(found) < 30
        assert found + numbers(reader) == 3 * list(range(10))


def test_rows_in_a_row_group_are_read_once_despite_several_interruptions(ten: str) -> None:
    moments = iter([*"....", "here", *"..", "here", *"." * 20])

    def interrupted(row: Any) -> Any:
        if next(moments) == "here":
            raise KeyboardInterrupt
        return row

    spec = TransformSpec(interrupted)
    with row_reader(ten, reader_pool_type="dummy", transform_spec=spec) as reader:
        found = [next(reader).number for _ in range(2)]
        # The position is within a row group, which is therefore read again.
        reader.load_state_dict(reader.state_dict())
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                next(reader)
        assert found + numbers(reader) == list(range(10))


#: So many that they are not all read before the fork.
EPOCHS = 200


@pytest.mark.parametrize(("taken", "num_rows"), [(1, 4), (3 * EPOCHS, 10 * EPOCHS)])
def test_forked_reader_continues_at_its_parents_position(
    ten: str, taken: int, num_rows: int
) -> None:
    left = (EPOCHS * list(range(10)))[num_rows:]
    with batch_reader(ten, num_epochs=EPOCHS) as reader:
        for _ in range(taken):
            next(reader)
        receiving, sending = multiprocessing.get_context("fork").Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=lambda: sending.send(numbers(reader)), daemon=True
        )
        process.start()
        assert receiving.poll(60)
        assert receiving.recv() == left
        process.join(60)
        assert numbers(reader) == left


@pytest.mark.parametrize("make", [batch_reader, row_reader])
def test_pickling_a_reader_raises_error_with_the_remedy(make: Any, tmp_path: Path) -> None:
    reader = make(write_parquet(tmp_path, {"a": [1, 2]}))
    name = "make_batch_reader" if make is batch_reader else "make_reader"
    for sent in (reader, DataLoader(reader), {"in": reader}):
        with pytest.raises(NotPicklableError, match=rf"in the worker.* {name}\(url"):
            pickle.dumps(sent)


ROWS, GROUPS = 12, 3


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve rows in three row groups."""
    return write_parquet(tmp_path_factory.mktemp("twelve"), {"id": range(ROWS)})


def test_reader_batches_are_row_groups(url: str) -> None:
    reader = batch_reader(url, num_epochs=2)
    assert len(list(reader)) == 2 * GROUPS
    found = reader.statistics()
    assert (found.batches, found.rows) == (2 * GROUPS, 2 * ROWS)
    assert found.waited_for_decoding > 0


def test_row_reader_statistics_count_whole_row_groups(url: str) -> None:
    reader = row_reader(url, num_epochs=1)
    for _ in range(5):
        next(reader)
    found = reader.statistics()
    assert (found.batches, found.rows) == (2, 8)


@pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader])
def test_loader_statistics_equal_reader_statistics(kind: Any, url: str) -> None:
    reader = batch_reader(url, num_epochs=1)
    loader = kind(reader, batch_size=5)
    for passes in (1, 2):
        assert len(list(loader)) == 3
        found = loader.statistics()
        assert (found.batches, found.rows) == (passes * 3, passes * ROWS)
        assert found == reader.statistics()
    assert loader.statistics(last_pass=True).batches == 3


def test_loader_statistics_over_another_reader_class_raise_error() -> None:
    loader = DataLoader(ItemReader([], batched=True))
    with pytest.raises(UnsupportedArgumentError, match="make_batch_reader"):
        loader.statistics()
