"""Petastorm's API over MDS shards.

`mdstorm` mirrors `petastorm` module for module. Its names are loaded on first use: importing it
imports neither pyspark nor a framework.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdstorm._conversion.convert import convert
    from mdstorm._drop_in.install import install_as_petastorm
    from mdstorm.errors import NoDataAvailableError
    from mdstorm.reader import make_batch_reader, make_reader
    from mdstorm.transform import TransformSpec

__all__ = [
    "NoDataAvailableError",
    "TransformSpec",
    "__version__",
    "convert",
    "install_as_petastorm",
    "make_batch_reader",
    "make_reader",
]

__version__ = "0.1.0"

_HOMES = {
    "NoDataAvailableError": "errors",
    "TransformSpec": "transform",
    "convert": "_conversion.convert",
    "install_as_petastorm": "_drop_in.install",
    "make_batch_reader": "reader",
    "make_reader": "reader",
}

#: Modules that are attributes of the package without an import of their own, as in Petastorm.
_MODULES = frozenset(
    {
        "benchmark",
        "cache",
        "codecs",
        "errors",
        "etl",
        "fs_utils",
        "generator",
        "local_disk_cache",
        "ngram",
        "predicates",
        "pytorch",
        "reader",
        "reader_impl",
        "selectors",
        "spark",
        "spark_utils",
        "test_util",
        "tf_utils",
        "tools",
        "transform",
        "unischema",
        "utils",
        "weighted_sampling_reader",
        "workers_pool",
    }
)

#: Those of them that need a library which may be missing.
_NEEDED = {"pytorch": "torch", "tf_utils": "tensorflow"}

# What the engine logs reaches the logger of this package, as all of Petastorm reaches its own:
# `logging.getLogger("mdstorm")` is the one to set levels and handlers of.
logging.getLogger("mdstorm_backend").parent = logging.getLogger("mdstorm")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"mdstorm.{_HOMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"mdstorm.{name}")
    from mdstorm._petastorm_names import ABSENT

    raise ABSENT.error("mdstorm", name, sys._getframe(1))


def __dir__() -> list[str]:
    # `help(mdstorm)` asks for each of them.
    missing = {name for name, library in _NEEDED.items() if not _is_there(library)}
    return sorted({*globals(), *__all__, *(_MODULES - missing)})


def _is_there(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ValueError:  # a mock stands in its place
        return True
