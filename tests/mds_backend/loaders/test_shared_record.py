import copy
import multiprocessing
import os
import pickle
from typing import Any

import pytest

from mdstorm_backend.loaders.epochs import SharedRecord


def add(record: SharedRecord, times: int) -> None:
    for _ in range(times):
        with record.changing() as content:
            content["count"] += 1


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301
def test_a_copy_is_a_record_of_its_own(duplicate: Any) -> None:
    record = SharedRecord({"count": 3})
    other = duplicate(record)
    add(record, 1)
    assert (record.read(), other.read()) == ({"count": 4}, {"count": 3})


def part_and_add(record: SharedRecord, go: Any, results: Any) -> None:
    go.acquire()
    record.part()
    add(record, 1)
    results.put(record.read())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_that_parts_has_the_content_when_it_was_started(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    record, go, results = SharedRecord({"count": 3}), context.Semaphore(0), context.SimpleQueue()
    record.part()  # nothing: it is this process's own
    processes = [context.Process(target=part_and_add, args=(record, go, results)) for _ in range(2)]
    for process in processes:
        process.start()
    add(record, 5)
    for _ in processes:
        go.release()
    assert [results.get() for _ in processes] == [{"count": 4}] * 2
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert record.read() == {"count": 8}


def test_what_is_shorter_is_stored_whole() -> None:
    record = SharedRecord({"text": "x" * 100})
    record.pass_on()  # from now on in a file
    with record.changing() as content:
        content["text"] = ""
    assert record.read() == {"text": ""}


def test_an_error_changes_nothing() -> None:
    record = SharedRecord({"count": 0})
    with pytest.raises(ZeroDivisionError), record.changing() as content:
        content["count"] = 1 // 0
    with record.changing() as content:
        assert content == {"count": 0}


def test_nothing_is_left_behind(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/dev/fd"))
    record = SharedRecord({})
    record.pass_on()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/dev/fd")) == before + 1
    del record
    assert len(os.listdir("/dev/fd")) == before
