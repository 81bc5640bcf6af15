"""mdstorm as petastorm in the process of the tests, for a while."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import mdstorm


@contextmanager
def installed_as_petastorm() -> Iterator[None]:
    """Install, and leave no trace afterwards: other tests must not find `petastorm`."""
    finders, path, python_path = list(sys.meta_path), list(sys.path), os.environ.get("PYTHONPATH")
    mdstorm.install_as_petastorm()
    try:
        yield
    finally:
        sys.meta_path[:], sys.path[:] = finders, path
        if python_path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = python_path
        for name in [name for name in sys.modules if name.partition(".")[0] == "petastorm"]:
            del sys.modules[name]
