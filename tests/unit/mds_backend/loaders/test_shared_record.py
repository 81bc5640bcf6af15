"""Changes to shared records by several threads, in nested calls, or interrupted by Ctrl-C."""

import _weakrefset
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from random import Random
from threading import Event, Thread
from typing import Any

import pytest
from tests.kit.interrupting import interrupted_at, interrupts
from tests.kit.reporting_lock import ReportingLock

from mdstorm_backend.loaders import shared_record
from mdstorm_backend.loaders.shared_record import SharedRecord

OLD, NEW = {"value": "a long text"}, {"value": "new"}


def share(record: SharedRecord[Any]) -> None:
    record.pass_on()


def change(record: SharedRecord[Any]) -> None:
    record.update(lambda content: {**content, **NEW})


def change_all(records: Sequence[SharedRecord[Any]]) -> None:
    for record in records:
        change(record)


def shared() -> SharedRecord[Any]:
    record = SharedRecord(OLD)
    record.pass_on()
    return record


def unshared() -> SharedRecord[Any]:
    return SharedRecord(OLD)


@pytest.mark.parametrize(("make", "call"), [(unshared, share), (shared, change)])
def test_interrupted_call_leaves_either_old_or_new_content_in_the_record(
    make: Callable[[], SharedRecord[Any]],
    call: Callable[[SharedRecord[Any]], None],
) -> None:
    gc.collect()  # else the interrupt may reach a finalizer of another test's record
    for number in count(1):
        record, has_ended = make(), False
        with suppress(KeyboardInterrupt), interrupted_at(number, shared_record.__file__):
            call(record)
            has_ended = True
        assert record.read() in (OLD, NEW), number
        if has_ended:
            break
    assert number > 5
    assert record.read() == (NEW if call is change else OLD)


@pytest.mark.parametrize("make", [shared, unshared])
def test_record_is_not_locked_after_interrupts_at_random_points(
    make: Callable[[], SharedRecord[Any]],
) -> None:
    draw, records = Random(0), [make() for _ in range(200)]
    with interrupts() as interrupt_after:
        for record in records:
            with suppress(KeyboardInterrupt):
                interrupt_after(draw.uniform(1e-6, 1e-4))
                for _ in range(1000):
                    change(record)
    # Another process waits for a lock on a file, and another thread for one in this process.
    process = get_context("fork").Process(target=change_all, args=(records,))
    process.start()
    thread = Thread(target=change_all, args=(records,), daemon=True)
    thread.start()
    process.join(60), thread.join(60)
    process.kill()
    assert (process.exitcode, thread.is_alive()) == (0, False)


def test_forked_process_can_change_a_record_that_a_parent_thread_is_changing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, is_changing, may_end = unshared(), Event(), Event()
    # As if the change had begun after `pass_on`, which waits for changes, but before the fork.
    monkeypatch.setattr(SharedRecord, "pass_on", lambda record: None)

    def wait(content: dict[str, Any]) -> dict[str, Any]:
        is_changing.set()
        may_end.wait(60)
        return content

    thread = Thread(target=record.update, args=(wait,))
    thread.start()
    is_changing.wait(60)
    process = get_context("fork").Process(target=change, args=(record,))
    process.start()
    process.join(30)
    process.kill()
    process.join()
    may_end.set()
    thread.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("make", [shared, unshared])
@pytest.mark.parametrize("nested", [change, share])
def test_record_change_is_not_lost_if_nested_call_changes_or_shares_the_record(
    make: Callable[[], SharedRecord[Any]], nested: Callable[[SharedRecord[Any]], None]
) -> None:
    record, calls = make(), count()

    def edit(content: dict[str, Any]) -> dict[str, Any]:
        if next(calls) == 0:  # as if a signal had arrived or the garbage collector had run
            nested(record)
        return {"value": f"{content['value']} later"}

    record.update(edit)
    before = OLD if nested is share else NEW
    assert record.read() == {"value": before["value"] + " later"}


#: A program that fails if another process holds a lock on an inherited file.
LOCK_FILE = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"


#: Reads a shared record after the functions that weakref calls at exit, as a daemon thread may.
READS_AT_EXIT = """
import atexit
atexit.register(lambda: print(record.read()))
from mdstorm_backend.loaders.shared_record import SharedRecord
record = SharedRecord({"value": 1})
record.pass_on()
"""


def test_shared_record_can_be_read_while_the_interpreter_exits() -> None:
    command = [sys.executable, "-c", READS_AT_EXIT]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("{'value': 1}\n", "")


def test_record_is_locked_during_a_write_after_a_nested_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, write, locked = shared(), os.pwrite, []

    def checked(handle: int, content: bytes, offset: int) -> int:
        # A forked process would first read the record, which unlocks the file.
        command = [sys.executable, "-c", LOCK_FILE, str(handle)]
        run = subprocess.run(command, pass_fds=[handle], capture_output=True, check=False)
        locked.append(run.returncode != 0)
        return write(handle, content, offset)

    monkeypatch.setattr(os, "pwrite", checked)
    record.update(lambda content: {"value": record.read()["value"] + " later"})
    assert locked == [True]


def test_change_by_a_thread_is_not_lost_if_pass_on_is_called_meanwhile() -> None:
    record, is_changing, may_end = unshared(), Event(), Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "RLock", lambda: ReportingLock(may_end))
        record.unlock()

    def edit(content: dict[str, Any]) -> dict[str, Any]:
        is_changing.set()
        may_end.wait(60)
        return {**content, **NEW}

    thread = Thread(target=record.update, args=(edit,))
    thread.start()
    is_changing.wait(60)
    record.pass_on()
    thread.join()
    assert record.read() == NEW


def test_records_added_by_threads_during_a_fork_raise_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: list[SharedRecord[Any]] = []
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)

    def add(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename in (weakref.__file__, _weakrefset.__file__):
            added.append(unshared())
        return add

    before = sys.gettrace()
    sys.settrace(add)
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if added and not raised else 1)
    finally:
        sys.settrace(before)
    assert os.waitpid(child, 0)[1] == 0
    assert not raised
