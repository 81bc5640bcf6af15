"""Temporarily replace another library with mdstorm in the test process."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import mdstorm
import mdstorm_backend


def installed_as_petastorm() -> AbstractContextManager[None]:
    """Install mdstorm as `petastorm`, and undo it afterwards so that other tests are unaffected."""
    return _installed("petastorm", mdstorm.install_as_petastorm)


def installed_as_streaming() -> AbstractContextManager[None]:
    """Install mdstorm as `streaming`, and undo it afterwards so that other tests are unaffected."""
    return _installed("streaming", mdstorm_backend.install_as_streaming)


@contextmanager
def _installed(library: str, install: Callable[[], None]) -> Iterator[None]:
    path, python_path = list(sys.path), os.environ.get("PYTHONPATH")
    finders = list(sys.meta_path)
    install()
    # Libraries that are imported in the meantime add their own finders, which are kept.
    ours = [finder for finder in sys.meta_path if finder not in finders]
    try:
        yield
    finally:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in ours]
        sys.path[:] = path
        if python_path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = python_path
        for name in [name for name in sys.modules if name.partition(".")[0] == library]:
            del sys.modules[name]
