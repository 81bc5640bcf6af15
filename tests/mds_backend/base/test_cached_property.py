"""`cached_property`: computed once, without a lock that others have to wait for."""

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from mdstorm_backend.base import cached_property


class Slow:
    """Has a property that takes as long as a test wants it to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()

    @cached_property
    def value(self) -> object:
        """Something new each time."""
        self.begun.set()
        self.may_end.wait()
        return object()


class Instance:
    def __init__(self) -> None:
        self.itself = self

    @cached_property
    def value(self) -> int:
        return 3


def test_instances_have_one_dictionary_if_garbage_is_collected_while_it_is_made() -> None:
    """A dictionary of an instance that is not the instance's is freed too late: a crash."""
    instance = Instance()
    found: list[dict[str, object]] = []
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        garbage = Instance()
        _dies = weakref.ref(garbage, lambda _: found.append(instance.__dict__))
        del garbage
        kept = [{number: number} for number in range(1_000)]  # the next one needs new memory
        gc.set_threshold(1)
        gc.enable()
        value = instance.value
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert len(found) == 1
    assert found[0] is instance.__dict__
    assert found[0] == {"itself": instance, "value": value}
    assert len(kept) == 1_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_need_not_wait_for_a_thread_that_is_not_there() -> None:
    slow, quick = Slow(), Slow()
    quick.may_end.set()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: slow.value)
        slow.begun.wait()
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if quick.value is quick.value else 1)
            finally:
                os._exit(1)
        slow.may_end.set()
    assert os.waitpid(child, 0)[1] == 0
