"""`ReportingLock`: a lock that reports when a thread waits for it."""

from threading import Event, RLock


class ReportingLock:
    """A reentrant lock that sets an event when a thread has to wait for another one."""

    def __init__(self, is_awaited: Event) -> None:
        self._lock, self._is_awaited = RLock(), is_awaited

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._is_awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
