"""Import a training framework or another optional library, if this environment has it."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


def import_framework(module: str) -> Any:
    """Return a module of a framework; skip the tests if the framework is not installed.

    Unlike `pytest.importorskip`, this raises the error of an installed framework that misses one of
    its own dependencies.
    """
    if find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"needs {module}", allow_module_level=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the frameworks' own
        return import_module(module)
