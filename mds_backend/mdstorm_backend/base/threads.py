"""Thread pools, prefetching, the threads of closed generators, and fork safety.

A suspended generator is closed when its last reference goes away. The garbage collector may close
it in any thread and at any point: in one of the generator's own threads, or while holding a lock
that one of them is waiting for, such as the locks that `threading` uses to start and end threads.
Therefore closing a generator does not wait for its threads, those of a `WorkAhead`. They finish
their current work, and the generator's owner waits for them later, with `PassThreads`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import count, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakSet

from mdstorm_backend.base.recorder import Recorder, of_this_task, working_for
from mdstorm_backend.errors import ConcurrentIterationError

if TYPE_CHECKING:
    from typing_extensions import Self


_In = TypeVar("_In")
_Out = TypeVar("_Out")

_priorities = count()


def next_priority() -> int:
    """Return a priority lower than all earlier ones; a greater number means a lower priority."""
    return next(_priorities)


class _Here(threading.local):
    #: The priority of this thread's work, and the threads to which it may hand off work.
    priority: int | None = None
    others: ThreadPoolExecutor | None = None
    #: If set, a list that receives the threads of generators that this thread closes.
    closed: list[WorkAhead] | None = None


_here = _Here()


def current_priority() -> int:
    """Return the priority of this thread's work, a smaller number than that of any later work."""
    return next_priority() if _here.priority is None else _here.priority


def hand_off(function: Callable[[], object]) -> bool:
    """Call `function` in another thread, as part of this thread's work.

    Returns
    -------
    bool
        False if this is not a thread of a `WorkAhead`, which would wait for the other thread. In
        that case `function` is not called.
    """
    others = _here.others
    if others is not None:
        others.submit(_called, others, current_priority(), of_this_task(function))
    return others is not None


def _called(
    others: ThreadPoolExecutor | None, priority: int, function: Callable[..., _Out], *args: Any
) -> _Out:
    _here.others, _here.priority = others, priority
    return function(*args)


#: Called with the number of finished items, and the total.
OnProgress: TypeAlias = Callable[[int, int], None]

#: Upper limit of the default number of threads, which bounds the number of shards in memory and of
#: concurrent requests to storage.
_MAX_THREADS = 8
#: Maximum number of concurrent requests that only check files or write small ones.
_MOST_REQUESTS = 16


def num_threads(threads: int | None) -> int:
    """Return the requested number of threads; by default one per CPU core, at most 8."""
    return threads or min(_MAX_THREADS, os.cpu_count() or 1)


def map_files(call: Callable[[_In], _Out], items: Collection[_In]) -> list[_Out]:
    """Call `call` for each of several small files, in threads; return the results in order.

    The first error is raised once all calls have ended.
    """
    with ThreadPoolExecutor(min(_MOST_REQUESTS, len(items)) or 1) as pool:
        return list(pool.map(call, items))


def each(
    call: Callable[[_In], _Out],
    items: Sequence[_In],
    threads: int | None,
    on_progress: OnProgress | None = None,
    *,
    stop: Callable[[BaseException], object] = lambda error: None,
) -> Iterator[_Out]:
    """Call `call` for each item in threads, and yield the results in item order.

    The first error of any call is raised once the calls in progress have ended, unless the wait for
    them is interrupted. No further calls begin.

    Parameters
    ----------
    call : callable
        Called with an item.
    items : sequence
        The items.
    threads : int or None
        Maximum number of calls at a time; see `num_threads`.
    on_progress : callable, optional
        Called with the number of calls that have ended, and the total.
    stop : callable, optional
        Called with the first error before the wait; it can make the other calls end sooner.
    """
    waiting = deque(enumerate(items))
    # Unlike `concurrent.futures.wait`, a queue holds no lock when the wait is interrupted.
    ended: SimpleQueue[tuple[int, Future[_Out]]] = SimpleQueue()

    def work() -> None:
        with suppress(IndexError):
            while True:
                number, item = waiting.popleft()
                result: Future[_Out] = Future()
                settle(result, partial(call, item))
                if result.exception() is not None:
                    waiting.clear()
                ended.put((number, result))

    # When Python exits, it waits for the threads of an executor, but not for these.
    working: list[Future[None]] = []
    results: dict[int, _Out] = {}
    try:
        for number in range(min(num_threads(threads), len(items))):
            working.append(in_own_thread(work, f"mdstorm-each-{number}"))
        following = 0
        for done in range(1, len(items) + 1):
            number, result = ended.get()
            results[number] = result.result()
            while following in results:
                yield results.pop(following)
                following += 1
            if on_progress is not None:
                on_progress(done, len(items))
    except BaseException as error:
        waiting.clear()
        stop(error)
        for thread in working:
            thread.result()
        raise


def settle(result: Future[Any], make: Callable[[], Any]) -> None:
    """Call `make`, and store its result or its error in `result`."""
    try:
        result.set_result(make())
    except BaseException as error:
        result.set_exception(error)


def in_own_thread(make: Callable[[], _Out], name: str) -> Future[_Out]:
    """Call `make` in a daemon thread of its own, which may be left behind; return its future."""
    result: Future[_Out] = Future()
    threading.Thread(target=settle, args=(result, make), name=name, daemon=True).start()
    return result


class OwnContext:
    """A context manager that returns itself, and calls `_mdstorm_leave` at the end of the block.

    Users derive from its subclasses and are unlikely to define a method with that name.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mdstorm_leave(kind)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """Clean up; `kind` is the class of the error that ended the block, if one did."""
        raise NotImplementedError(f"{type(self).__name__} has to define _mdstorm_leave")


_Item = TypeVar("_Item")
_Generator = TypeVar("_Generator", bound=Generator[object, None, None])


class Iteration(Iterator[_Item]):
    """The user's iterator over batches, which detects concurrent use by two threads."""

    def __init__(self, generator: Generator[_Item, None, None]) -> None:
        self._generator = generator

    def __next__(self) -> _Item:
        try:
            # Python handles Ctrl-C after a call, such as next(): the batch would be lost, since the
            # position is already past it. A `for` statement makes no such call.
            for item in self._generator:
                return item
        except ValueError as error:
            _raise_if_in_use(error)
            raise
        raise StopIteration

    def close(self) -> None:
        """End the iteration.

        Raises
        ------
        ConcurrentIterationError
            If another thread is waiting for a batch.
        """
        try:
            self._generator.close()
        except ValueError as error:
            _raise_if_in_use(error)
            raise


def _raise_if_in_use(error: ValueError) -> None:
    # The other thread may no longer be inside the generator, so only the error's text identifies
    # the cause.
    if str(error) == "generator already executing":
        raise ConcurrentIterationError(
            "another thread is using this iterator. Let one thread iterate and pass its batches "
            "on through a queue.Queue, hold a threading.Lock around next() and close(), or call "
            "iter(loader) in each thread, which then reads all rows"
        ) from error


class PassThreads:
    """The threads of a loader's passes, so that the loader can wait for them."""

    def __init__(self) -> None:
        #: The threads of closed passes.
        self._closed: list[WorkAhead] = []
        self._running: WeakSet[Iteration[Any]] = WeakSet()

    def __reduce__(self) -> tuple[type[PassThreads], tuple[()]]:
        return PassThreads, ()  # a copy has its own passes

    def follow(self, generator: Generator[_Item, None, None]) -> Iteration[_Item]:
        """Return an iterator over a generator's batches; `end` closes it."""
        iteration = Iteration(generator)
        self._running.add(iteration)
        return iteration

    def end(self) -> None:
        """Close the running iterations, and wait for their threads."""
        for iteration in list(self._running):
            iteration.close()
        self.wait()

    @contextmanager
    def closing(self, generator: _Generator) -> Iterator[_Generator]:
        """Close `generator`, one stage of a pass, at the end of a block in an outer generator.

        Exiting the block waits for the generator's threads, unless the outer generator is itself
        being closed: in that case `wait` does. Threads of earlier passes are waited for first.
        """
        self.wait()
        is_closed = False
        try:
            yield generator
        except GeneratorExit:
            is_closed = True
            raise
        finally:
            outer, _here.closed = _here.closed, self._closed
            try:
                generator.close()
            finally:
                _here.closed = outer
            if not is_closed:
                self.wait()

    def wait(self) -> None:
        """Wait for the threads of closed passes."""
        while self._closed:
            self._closed.pop().wait()


class WorkAhead(OwnContext):
    """Threads that work ahead of their consumer, until the end of the ``with`` block.

    Work that has not begun by then is cancelled. The threads are waited for, unless the block is in
    a generator that is being closed; see the module's docstring.

    Parameters
    ----------
    threads : int
        Number of threads. With 0, the caller's thread does the work when it asks for it.
    recorder : Recorder, optional
        Records the work and the consumer's waits.
    name : str
        The beginning of the threads' names.
    """

    def __init__(
        self, threads: int, recorder: Recorder | None = None, *, name: str = "mdstorm-prefetch"
    ) -> None:
        self._recorder = recorder
        #: Returns the result of a call that was begun, or raises its error.
        self.result: Callable[[Any], Any] = Future.result if recorder is None else recorder.result
        #: Whether the last result was ready when the consumer requested it.
        self._is_ahead = False
        #: One element per call in progress: a deque can be modified safely without a lock.
        self._under_way: deque[None] = deque()
        self._pool: ThreadPoolExecutor | None = None
        #: Threads to which calls hand off work: others, because the calls wait for that work.
        self._others: ThreadPoolExecutor | None = None
        if threads:
            _make_forks_safe()
            self._pool, self._others = (ThreadPoolExecutor(threads, name) for _ in range(2))

    def begin(
        self, function: Callable[[_In], _Out], item: _In, priority: int | None = None
    ) -> _Out | Future[Any]:
        """Begin a call in a thread, for `result`; without threads, return its result.

        In both cases `result` raises the call's error. `priority` is the call's priority from
        `next_priority`, by default one below those of all earlier calls.
        """
        if self._pool is None:
            try:
                return self._call_here(function, item)
            except Exception as error:
                return _failed(error)
        call: Callable[[_In], Any] = function
        if self._recorder is not None:
            call = self._recorder.task(function)
        priority = next_priority() if priority is None else priority
        return self._pool.submit(_called, self._others, priority, self._counted, call, item)

    def _call_here(self, function: Callable[[_In], _Out], item: _In) -> _Out:
        with working_for(self._recorder):
            return function(item)

    def _counted(self, call: Callable[[_In], _Out], item: _In) -> _Out:
        self._under_way.append(None)
        try:
            return call(item)
        finally:
            self._under_way.pop()

    def map(
        self,
        function: Callable[[_In], _Out],
        items: Iterable[_In],
        depth: int,
        *,
        first_here: bool = False,
    ) -> Iterator[_Out]:
        """Apply `function` to each item and yield the results in order.

        At most `depth` results are in progress or ready at a time. `items` is advanced in the
        consumer's thread. Errors, including those of `items` itself, are raised in order, after the
        preceding results. With `first_here`, the first item is processed in the consumer's thread
        before the second one is requested.
        """
        items = iter(items)
        for item in islice(items, None if self._pool is None else int(first_here)):
            yield self._call_here(function, item)
        pending: deque[Any] = deque()
        begun = 0
        for call in self._begun(function, items):
            pending.append(call)
            begun += 1
            # Results are yielded before the full depth is begun: beginning two calls for each
            # result reaches the full depth soon enough.
            if len(pending) >= depth or (begun >= 2 and pending[0].done()):
                begun = 0
                yield self._next(pending)
        while pending:
            yield self._next(pending)

    def _begun(self, function: Callable[[_In], _Out], items: Iterator[_In]) -> Iterator[Any]:
        try:
            for item in items:
                yield self.begin(function, item)
        except Exception as error:
            yield _failed(error)

    def _next(self, pending: deque[Future[Any]]) -> Any:
        self._is_ahead = pending[0].done()
        return self.result(pending.popleft())

    def share_of(self, threads: int) -> int:
        """Return how many of `threads` one call may use, dividing them among the current calls.

        Each call gets one thread as long as results are ready when the consumer requests them,
        because more threads would take more processor time without saving any waiting time.
        """
        return 1 if self._is_ahead else max(threads // max(len(self._under_way), 1), 1)

    def wait(self) -> None:
        """Wait for the threads, once the block has ended."""
        self._shut_down(wait=True)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        is_closed = kind is GeneratorExit
        self._shut_down(wait=not is_closed)
        if is_closed and _here.closed is not None:
            _here.closed.append(self)

    def _shut_down(self, *, wait: bool) -> None:
        if self._pool is not None and self._others is not None:
            self._pool.shutdown(wait, cancel_futures=True)
            self._others.shutdown(wait)  # nothing is cancelled: calls may wait for it


def _failed(error: Exception) -> Future[Any]:
    failed: Future[Any] = Future()
    failed.set_exception(error)
    return failed


@lru_cache(maxsize=1)
def _make_forks_safe() -> None:
    """Make forks wait until Arrow is initialised.

    When Arrow first converts Python objects, in whichever thread, it imports pandas while holding a
    lock. A process forked in the meantime would wait forever for a thread that it does not have.
    """
    os.register_at_fork(before=set_up_arrow)


def set_up_arrow() -> None:
    """Initialise Arrow, which imports pandas if installed, or wait for a thread doing so."""
    import pyarrow as pa
    import pyarrow.compute

    pa.array([0])


if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property:  # noqa: N801  # the name of the class it replaces
        """`functools.cached_property`, safe to share between threads and to fork.

        Before Python 3.12, the standard version has a lock shared by all instances, and a process
        forked while a thread holds the lock waits for it forever. Without a lock, several threads
        may compute a value at the same time; all of them get the first result.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self._function(instance)
            # Python 3.11 creates an instance's dictionary on first use, and may collect garbage
            # just before. If a finalizer then lets another thread use the instance, two
            # dictionaries are created that share the same values, and the one that survives points
            # to freed memory. Allocating a dictionary here first triggers any due collection, and
            # leaves memory to be reused for the instance's dictionary.
            {}  # noqa: B018
            return instance.__dict__.setdefault(self._name, value)
