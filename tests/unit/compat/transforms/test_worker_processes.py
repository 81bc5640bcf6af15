"""``reader_pool_type='process'``: user functions in worker processes, and how they are pickled."""

import functools
import importlib
import os
import pickle
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.kit.readers import batch_reader, write_parquet

from mdstorm import TransformSpec
from mdstorm._transforms import WorkerPool, function_identity, pickle_function
from mdstorm.errors import MissingDependencyError, WorkerDiedError
from mdstorm.predicates import in_lambda


class MineError(Exception):
    """An error whose constructor has two arguments."""

    def __init__(self, first: int, second: str) -> None:
        super().__init__(first, second)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = {"id": range(20), "text": [str(i) for i in range(20)]}
    return write_parquet(tmp_path_factory.mktemp("twenty"), columns, row_group_size=4)


def processes(url: str, function: Any, fields: Any = (), **arguments: Any) -> Any:
    spec = TransformSpec(function, list(fields))
    arguments = {"workers_count": 1, **arguments}
    return batch_reader(url, reader_pool_type="process", transform_spec=spec, **arguments)


def test_process_pool_runs_functions_and_keeps_row_order(url: str) -> None:
    def work(frame: pd.DataFrame) -> pd.DataFrame:
        # A local function, which workers cannot import from a module.
        frame["pid"] = os.getpid()
        frame["image"] = [np.full((2, 3), i) for i in frame["id"]]
        return frame

    fields = [("pid", np.int64, (), False), ("image", np.int64, (2, 3), False)]
    predicate = in_lambda(["id"], lambda ids: ids % 2 == 0)
    with processes(url, work, fields, predicate=predicate, workers_count=2) as reader:
        batches = list(reader)
    assert [i for batch in batches for i in batch.id] == list(range(0, 20, 2))
    assert batches[0].text.tolist() == ["0", "2"]
    assert batches[1].image[:, 1, 2].tolist() == [4, 6]
    assert batches[0].image.flags.writeable
    assert os.getpid() not in {pid for batch in batches for pid in batch.pid}
    assert reader.diagnostics["items_produced"] == 5
    assert reader.diagnostics["items_inprocess"] == 0


def test_process_pool_runs_a_predicate_or_a_transform_alone(url: str) -> None:
    here = os.getpid()
    elsewhere = in_lambda(["id"], lambda ids: np.full(len(ids), os.getpid() != here))
    pool: dict[str, Any] = {"reader_pool_type": "process", "workers_count": 1}
    with batch_reader(url, predicate=elsewhere, **pool) as reader:
        assert [i for batch in reader for i in batch.id] == [*range(20)]
    fields = [("pid", np.int64, (), False)]
    with processes(url, lambda frame: frame.assign(pid=os.getpid()), fields) as reader:
        assert here not in next(reader).pid


@pytest.mark.long
def test_error_in_worker_process_is_raised_unchanged(url: str) -> None:
    def fail(frame: pd.DataFrame) -> pd.DataFrame:
        raise MineError(7, "seven")

    with processes(url, fail) as reader, pytest.raises(MineError) as caught:
        next(reader)
    assert caught.value.args == (7, "seven")
    assert "in fail" in str(caught.value.__cause__)  # the worker's traceback


@pytest.mark.long
def test_worker_process_that_dies_raises_error(url: str) -> None:
    with (
        processes(url, lambda frame: os._exit(3)) as reader,
        pytest.raises(WorkerDiedError, match="ended with exit code 3"),
    ):
        next(reader)


def pool_of(function: Any) -> Any:
    """Return a pool with one worker process that calls `function`."""
    return WorkerPool(pickle_function(function), 1)


class TestPool:
    """When a pool's processes start and end."""

    def test_errors_that_cannot_be_unpickled_become_runtime_errors(self) -> None:
        class OddError(Exception):
            def __init__(self, first: int, *, second: int) -> None:
                super().__init__(f"{first} and {second}")

        def fail(argument: int) -> None:
            raise OddError(1, second=argument)

        pool = pool_of(fail)
        with pytest.raises(RuntimeError, match="OddError: 1 and 2"):
            pool(2)
        pool.close()

    @pytest.mark.long
    def test_process_that_died_is_replaced(self) -> None:
        def work(argument: int) -> int:
            return argument + 1 if argument >= 0 else os._exit(1)

        pool = pool_of(work)
        with pytest.raises(WorkerDiedError):
            pool(-1)
        assert pool(1) == 2  # computed by a new process that replaces the dead one
        (worker,) = pool.alive
        pool.close()
        assert worker.process.returncode == -signal.SIGKILL
        with pytest.raises(WorkerDiedError, match="has ended the worker"):
            pool(1)

    def test_closing_the_pool_does_not_wait_for_a_running_function(self) -> None:
        pool = pool_of(lambda pipe: os.read(os.pipe()[0], 1))
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(pool, 0)
            while not pool.alive:
                pass
            pool.close()
            with pytest.raises(WorkerDiedError, match="has ended the worker"):
                running.result()

    def test_processes_end_when_the_pool_is_freed(self) -> None:
        pool = pool_of(abs)
        assert pool(-2) == 2
        (worker,) = pool.alive
        del pool
        assert worker.process.returncode is not None

    @pytest.mark.long
    def test_processes_end_when_their_parent_is_killed(self) -> None:
        program = (
            "import time\n"
            "from tests.unit.compat.transforms.test_worker_processes import pool_of\n"
            "pool_of(lambda _: (print('begun', flush=True), time.sleep(1000)))(0)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "begun\n"
            parent.kill()
            # The worker also holds the pipe, so this read ends only once the worker has ended.
            assert parent.stdout.read() == ""

    @pytest.mark.long
    def test_forked_process_starts_its_own_workers(self) -> None:
        pool = pool_of(lambda _: os.getpid())
        ours = pool(0)
        read, write = os.pipe()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            child = os.fork()
        if child == 0:
            os.write(write, f"{pool(0)} {len(caught)}".encode())
            pool.close()
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with os.fdopen(read) as pipe:
            theirs, warned = map(int, pipe.read().split())
        assert theirs != ours
        assert warned == 0
        assert pool(0) == ours
        pool.close()

    @pytest.mark.long
    def test_forked_process_does_not_keep_parent_workers_alive(self) -> None:
        pool = pool_of(abs)
        assert pool(-2) == 2
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            signal.pause()
        (worker,) = pool.alive
        worker.channel.close()  # as if this process had ended
        assert worker.process.wait(timeout=20) == 0
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pool.close()


@pytest.mark.long
def test_pickled_pool_calls_the_same_function() -> None:
    pool = pickle.loads(pickle.dumps(pool_of(abs)))  # noqa: S301
    assert pool(-2) == 2
    pool.close()


def test_function_that_workers_cannot_unpickle_raises_error(tmp_path: Path) -> None:
    class Unloadable:
        def __reduce__(self) -> Any:
            return int, ("no number",)

    pool = pool_of(Unloadable())
    for _ in range(2):
        with pytest.raises(ValueError, match="no number"):
            pool(0)
    pool.close()


@pytest.fixture
def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a new module with the given source on each call."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(text: str) -> Any:
        (tmp_path / "users_module.py").write_text(text)
        sys.modules.pop("users_module", None)
        importlib.invalidate_caches()
        return importlib.import_module("users_module")

    yield load
    sys.modules.pop("users_module", None)


CODE = "def helper(n): return n + {0}\n\ndef work(n): return helper(n)\n"


#: Modules without which functions are pickled by what is left: PySpark's copy, or only `pickle`.
WITHOUT: list[tuple[str, ...]] = [(), ("cloudpickle",), ("cloudpickle", "pyspark.cloudpickle")]


@pytest.mark.parametrize("missing", WITHOUT, ids=str)
@pytest.mark.parametrize(
    "wrap", [lambda f: f, lambda f: functools.partial(f, 1)], ids=["function", "partial"]
)
@pytest.mark.parametrize(
    "text", [CODE, "import threading\nlock = threading.Lock()\n" + CODE], ids=["plain", "lock"]
)
def test_function_identity_includes_the_functions_it_calls(
    module_of: Any, wrap: Any, text: str, missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    first = function_identity(wrap(module_of(text.format(1)).work))
    assert first == function_identity(wrap(module_of(text.format(1)).work))
    assert first != function_identity(wrap(module_of(text.format(2)).work))


def test_partial_identity_includes_its_arguments() -> None:
    one, other = (function_identity(functools.partial(max, n)) for n in (1, 2))
    assert one != other


@pytest.mark.parametrize("missing", WITHOUT, ids=str)
def test_local_function_needs_a_library_that_pickles_by_value(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    if missing == WITHOUT[-1]:
        with pytest.raises(MissingDependencyError, match="pip install cloudpickle"):
            pickle_function(lambda: 7)
    else:
        assert pickle.loads(pickle_function(lambda: 7))() == 7  # noqa: S301
    assert pickle.loads(pickle_function(CODE.format))(1) == CODE.format(1)  # noqa: S301
