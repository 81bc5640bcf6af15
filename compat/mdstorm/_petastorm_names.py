"""Petastorm's names: where mdstorm defines them, and which ones mdstorm does not provide.

The migration tool, which imports nothing of mdstorm, has a copy of ``petastorm_names.json``.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

from mdstorm_backend.drop_in import AbsentNames

_NAMES = json.loads(pkgutil.get_data("mdstorm", "petastorm_names.json") or b"")
#: Names that a Petastorm module imports for its own use, but that programs also import from it.
#: Maps module and name to the module that defines the name.
ELSEWHERE: dict[str, dict[str, str]] = _NAMES["defined_elsewhere"]
#: Anchor of a section in docs/differences.md → the names under ``petastorm`` that it covers.
SECTIONS: dict[str, tuple[str, ...]] = {
    section: tuple(names) for section, names in _NAMES["sections_of_absent_names"].items()
}

#: Names that users often look for in the wrong module, by the module that defines them.
_HOMES = {
    "mdstorm.pytorch": ("BatchedDataLoader", "DataLoader"),
    "mdstorm.spark": ("SparkDatasetConverter", "make_spark_converter"),
    "mdstorm.unischema": ("Unischema", "UnischemaField", "dict_to_spark_row"),
    "mdstorm_backend": ("MDSWriter", "StreamingDataLoader", "StreamingDataset", "open_dataset"),
}

#: The names that mdstorm does not provide, and the page that documents them.
ABSENT = AbsentNames(
    "petastorm",
    "mdstorm",
    "docs/differences.md",
    SECTIONS,
    {
        **{name: f"{module}.{name}" for module, names in _HOMES.items() for name in names},
        "tensorflow": "mdstorm.tf_utils",
        "torch": "mdstorm.pytorch",
    },
)
_Defined = TypeVar("_Defined", bound=Any)


def is_module(package: str, name: str) -> bool:
    """Whether a package has a public module with this name."""
    is_package = "__path__" in vars(sys.modules[package])
    return is_package and name[0] != "_" and find_spec(f"{package}.{name}") is not None


def other_names(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which looks up names in other modules.

    For a package, it also finds submodules. Petastorm's packages import most of their submodules,
    so programs use ``petastorm.etl.dataset_metadata`` after ``import petastorm``.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    """
    homes = ELSEWHERE.get(module.removeprefix("mdstorm."), {})

    def get(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"mdstorm.{homes[name]}"), name)
        if is_module(module, name):
            return importlib.import_module(f"{module}.{name}")
        raise ABSENT.error(module, name, sys._getframe(1))

    return get


def public(module: str) -> Callable[[_Defined], _Defined]:
    """Set the module name of a decorated class or function to `module`, which re-exports it.

    Pickles, messages and documentation then show the name that users import, and stay valid when
    the definition moves.
    """

    def name_home(defined: _Defined) -> _Defined:
        defined.__module__ = module
        return defined

    return name_home
