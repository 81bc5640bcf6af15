"""A record that Ctrl-C interrupts while it is shared or changed has the old content or the new."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest

from mdstorm_backend.loaders import shared_record
from mdstorm_backend.loaders.shared_record import SharedRecord

OLD, NEW = {"value": "a long text"}, {"value": "new"}


@contextmanager
def interrupted_at(number: int) -> Iterator[None]:
    """Raise KeyboardInterrupt before the n-th line that the module runs."""
    lines = count(1)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != shared_record.__file__:
            return None
        if event == "line" and next(lines) == number:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def share(record: SharedRecord) -> None:
    record.pass_on()


def change(record: SharedRecord) -> None:
    with record.changing() as content:
        content.update(NEW)


def shared() -> SharedRecord:
    record = SharedRecord(OLD)
    record.pass_on()
    return record


def unshared() -> SharedRecord:
    return SharedRecord(OLD)


@pytest.mark.parametrize(("make", "call"), [(unshared, share), (shared, change)])
def test_interrupted_record_has_old_or_new_content(
    make: Callable[[], SharedRecord],
    call: Callable[[SharedRecord], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_record, "PATIENCE", 0.0)  # for a lock that is never released
    for number in count(1):
        record, has_ended = make(), False
        with suppress(KeyboardInterrupt), interrupted_at(number):
            call(record)
            has_ended = True
        assert record.read() in (OLD, NEW), number
        if has_ended:
            break
    assert number > 5
    assert record.read() == (NEW if call is change else OLD)
