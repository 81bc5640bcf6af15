"""One cursor over a dataset: iteration, its end, starting anew, stopping."""

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.compat.readers import batch_reader, row_reader, write_parquet
from tests.mds_backend.small_datasets import write_numbers

from mdstorm import TransformSpec
from mdstorm.reader import Reader, make_batch_reader


@pytest.fixture
def ten(tmp_path: Path) -> str:
    """The numbers from 0 to 9, in row groups of four."""
    return write_parquet(tmp_path / "ten", {"id": pa.array(range(10), pa.int64())})


def ids(reader: Any) -> list[int]:
    return [int(i) for batch in reader for i in np.atleast_1d(batch.id)]


@pytest.mark.parametrize("pool", ["thread", "dummy"])
def test_a_batch_is_a_row_group(ten: str, pool: str) -> None:
    with batch_reader(ten, reader_pool_type=pool) as reader:
        assert [batch.id.tolist() for batch in reader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_batch_is_an_mds_shard(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path / "numbers", 200)
    with batch_reader(dataset.url) as reader:
        assert [len(batch.number) for batch in reader] == list(dataset.shard_sizes)


def test_a_row_is_a_namedtuple_of_values(ten: str) -> None:
    with row_reader(ten) as reader:
        rows = list(reader)
    assert [type(row).__name__ for row in rows] == ["inferred_schema_view"] * 10
    assert [row.id for row in rows] == list(range(10))
    assert {type(row.id) for row in rows} == {np.int64}


def test_what_kind_of_reader_it_is(ten: str) -> None:
    batches, rows = batch_reader(ten), row_reader(ten)
    assert (batches.batched_output, batches.is_batched_reader) == (True, True)
    assert (rows.batched_output, rows.is_batched_reader) == (False, False)
    assert (batches.ngram, batches.num_epochs, len(batches.dataset)) == (None, 1, 10)
    assert isinstance(batches, Reader)
    with pytest.raises(TypeError):
        len(batches)  # type: ignore[arg-type]


def test_iterators_share_the_cursor(ten: str) -> None:
    with batch_reader(ten) as reader:
        assert iter(reader) is reader
        assert reader.next().id[0] == 0
        assert next(iter(reader)).id[0] == 4
        assert ids(reader) == [8, 9]


def test_the_end_comes_again_and_again(ten: str) -> None:
    with batch_reader(ten) as reader:
        list(reader)
        assert reader.last_row_consumed
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(reader)


def test_the_last_row_is_consumed_when_the_end_was_met(ten: str) -> None:
    with batch_reader(ten) as reader:
        for _ in range(3):
            next(reader)
        assert not reader.last_row_consumed


class TestReset:
    """Beginning anew."""

    def test_after_the_end(self, ten: str) -> None:
        with batch_reader(ten, num_epochs=2) as reader:
            assert ids(reader) == 2 * list(range(10))
            reader.reset()
            assert not reader.last_row_consumed
            assert ids(reader) == 2 * list(range(10))

    def test_with_other_permutations(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "many", {"id": range(200)}, row_group_size=5)
        with make_batch_reader(url, seed=1) as reader:
            first = ids(reader)
            reader.reset()
            second = ids(reader)
        assert first != second
        assert sorted(first) == sorted(second) == list(range(200))

    def test_not_in_the_middle(self, ten: str) -> None:
        with batch_reader(ten) as reader:
            next(reader)
            with pytest.raises(NotImplementedError, match="in the middle of iteration"):
                reader.reset()


class TestStop:
    """Ending early."""

    def test_it_can_be_repeated(self, ten: str) -> None:
        reader = batch_reader(ten)
        next(reader)
        for _ in range(2):
            reader.stop()
            reader.join()
        assert reader.stopped

    def test_nothing_can_be_read_afterwards(self, ten: str) -> None:
        with batch_reader(ten) as reader:
            pass
        with pytest.raises(RuntimeError, match="Trying to read a sample after a reader created by"):
            next(reader)

    def test_the_threads_end_at_once(self, ten: str) -> None:
        before = threading.enumerate()
        reader = batch_reader(ten, num_epochs=None)
        next(reader)
        ours = set(threading.enumerate()) - set(before)
        assert ours
        reader.stop()
        assert not any(thread.is_alive() for thread in ours)


def test_nothing_stays_in_memory_after_stop(ten: str) -> None:
    with batch_reader(ten) as reader:
        list(reader)
        assert reader.dataset.find_open(2) is not None
    assert reader.dataset.find_open(2) is None


def test_leaving_the_context_prints_nothing(ten: str, capsys: pytest.CaptureFixture[str]) -> None:
    with batch_reader(ten) as reader:
        list(reader)
    assert capsys.readouterr().out == ""


def test_no_threads_work_for_a_dummy_pool(ten: str) -> None:
    names = []

    def note(frame: Any) -> Any:
        names.append(threading.current_thread().name)
        return frame

    with batch_reader(ten, reader_pool_type="dummy", transform_spec=TransformSpec(note)) as reader:
        next(reader)
        assert names == ["MainThread"]  # and nothing was read ahead


def test_an_empty_dataset_warns_and_ends(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "empty", {"id": pa.array([], pa.int64())})
    with pytest.warns(UserWarning, match="No matching data is available for loading"):
        reader = batch_reader(url, num_epochs=None)
    with reader:
        assert list(reader) == []
        assert reader.last_row_consumed


class TestFailures:
    """An error of the user's function."""

    @pytest.mark.parametrize("pool", ["thread", "dummy"])
    def test_it_comes_out_as_it_is(self, ten: str, pool: str) -> None:
        error = KeyError("mine")

        def fail(frame: Any) -> Any:
            raise error

        spec = TransformSpec(fail)
        with (
            batch_reader(ten, reader_pool_type=pool, transform_spec=spec) as reader,
            pytest.raises(KeyError) as caught,
        ):
            next(reader)
        assert caught.value is error

    def test_it_is_not_the_end_of_the_data(self, ten: str) -> None:
        def fail_late(frame: Any) -> Any:
            return frame if frame.id[0] == 0 else frame.no_such_column

        with batch_reader(ten, transform_spec=TransformSpec(fail_late)) as reader:
            next(reader)
            for _ in range(2):
                with pytest.raises(AttributeError, match="no_such_column"):
                    next(reader)
            assert not reader.last_row_consumed


@pytest.mark.parametrize("make", [batch_reader, row_reader])
def test_after_an_interruption_reading_goes_on(ten: str, make: Any) -> None:
    calls = iter(range(1000))

    def interrupted_once(given: Any) -> Any:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return given

    spec = TransformSpec(interrupted_once)
    with make(ten, reader_pool_type="dummy", num_epochs=3, transform_spec=spec) as reader:
        found: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            found.extend(int(i) for item in reader for i in np.atleast_1d(item.id))
        assert 0 < len(found) < 30
        assert found + ids(reader) == 3 * list(range(10))


def test_rows_of_a_share_come_once_after_several_interruptions(ten: str) -> None:
    moments = iter([*"....", "here", *"..", "here", *"." * 20])

    def interrupted(row: Any) -> Any:
        if next(moments) == "here":
            raise KeyboardInterrupt
        return row

    spec = TransformSpec(interrupted)
    with row_reader(ten, reader_pool_type="dummy", transform_spec=spec) as reader:
        found = [next(reader).id for _ in range(2)]
        reader.load_state_dict(reader.state_dict())  # in the middle of a share, to be read again
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                next(reader)
        assert found + ids(reader) == list(range(10))


@pytest.mark.parametrize(("taken", "left"), [(1, [4, 5, 6, 7, 8, 9]), (3, [])])
def test_a_fork_goes_on_where_its_parent_stands(ten: str, taken: int, left: list[int]) -> None:
    with batch_reader(ten) as reader:
        for _ in range(taken):
            next(reader)
        receiving, sending = multiprocessing.get_context("fork").Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=lambda: sending.send(ids(reader))
        )
        process.start()
        assert receiving.poll(60)
        assert receiving.recv() == left
        process.join(60)
        assert ids(reader) == left


def test_diagnostics_have_petastorms_keys(ten: str) -> None:
    assert batch_reader(ten).diagnostics == {"output_queue_size": 0}
    assert batch_reader(ten, reader_pool_type="dummy").diagnostics == {}
    for copies in (True, False):
        reader = batch_reader(ten, reader_pool_type="process", zmq_copy_buffers=copies)
        assert reader.diagnostics == {
            "items_consumed": 0,
            "items_produced": 0,
            "items_inprocess": 0,
            "zmq_copy_buffers": copies,
        }
