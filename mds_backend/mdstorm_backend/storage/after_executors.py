"""Use object stores while Python ends, after it has ended all executors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class _InlineExecutor(ThreadPoolExecutor):
    """Runs what is submitted at once, in the thread that submits it."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


def use_no_executors() -> None:
    """Let the clients of object stores work on in handlers of `atexit`.

    Python ends all executors before it calls the first of these handlers. The clients of S3, GCS
    and Azure let the executor of fsspec's event loop look up hosts and load certificates: from now
    on the loop's own thread, which still runs, does that.
    """
    from fsspec.asyn import get_loop  # and asyncio with it

    get_loop().set_default_executor(_InlineExecutor())
