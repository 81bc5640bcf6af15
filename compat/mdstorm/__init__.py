"""Petastorm's API over MDS shards.

`mdstorm` mirrors `petastorm` module for module. Its names are loaded lazily, so importing it does
not import pyspark or any framework.
"""

from __future__ import annotations

import importlib.util
import logging
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdstorm._conversion import convert
    from mdstorm._datasets import open_dataset
    from mdstorm._drop_in import install_as_petastorm
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
    "open_dataset",
]

__version__ = "0.1.0"

_HOMES = {
    "NoDataAvailableError": "errors",
    "TransformSpec": "transform",
    "convert": "_conversion",
    "install_as_petastorm": "_drop_in",
    "make_batch_reader": "reader",
    "make_reader": "reader",
    "open_dataset": "_datasets",
}

#: Modules and the optional library that each one requires.
_NEEDED = {
    "lightning": "lightning",
    "mlflow": "mlflow",
    "pytorch": "torch",
    "pytorch_lightning": "pytorch_lightning",
    "tf_utils": "tensorflow",
    "transformers": "transformers",
}

# The engine's log records go to this package's logger, so that users can set levels and handlers in
# one place, `logging.getLogger("mdstorm")`, as with Petastorm's logger.
logging.getLogger("mdstorm_backend").parent = logging.getLogger("mdstorm")


class _Missing:
    """An import finder, tried last, whose error for a missing module points to a replacement."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Return None, or raise MissingModuleError for a module that only Petastorm has."""
        if name.startswith("mdstorm."):
            from mdstorm._petastorm_names import ABSENT

            ABSENT.refuse_import(name)


sys.meta_path.append(_Missing)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"mdstorm.{_HOMES[name]}"), name)
    from mdstorm._petastorm_names import ABSENT, is_module

    if is_module(__name__, name):  # submodules need no separate import, as in Petastorm
        return importlib.import_module(f"mdstorm.{name}")
    raise ABSENT.error("mdstorm", name, sys._getframe(1))


def __dir__() -> list[str]:
    modules = {found.name for found in pkgutil.iter_modules(__path__) if found.name[0] != "_"}
    # `help(mdstorm)` imports each listed module, so modules that need a missing library are left
    # out.
    missing = {name for name, library in _NEEDED.items() if not _is_there(library)}
    return sorted({*__all__, *(modules - missing)})


def _is_there(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ValueError:  # a mock in `sys.modules` has no spec
        return True
