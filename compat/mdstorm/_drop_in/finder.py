"""An import hook that resolves `petastorm` and its modules to mdstorm."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mdstorm.errors import MissingModuleError

_THEIRS = "petastorm"
_OURS = "mdstorm"

#: `petastorm.__version__`: the release whose API mdstorm implements.
_VERSION = "0.13.1"

#: The package itself, which exists before any of its modules.
_package = sys.modules[_OURS]


def install() -> None:
    """Put the finder first, once, and replace a stand-in by the package."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if not isinstance(sys.modules.get(_THEIRS), Petastorm):
        sys.modules.pop(_THEIRS, None)
        importlib.import_module(_THEIRS)


class Petastorm(ModuleType):
    """The package `petastorm`: mdstorm, except for its name and version.

    Attributes set on it, for example by `unittest.mock.patch`, are set on mdstorm.
    """

    __version__ = _VERSION

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(_package, name)
        except AttributeError:
            raise AttributeError(f"module {_THEIRS!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_special(name):
            super().__setattr__(name, value)
        else:
            setattr(_package, name, value)

    def __delattr__(self, name: str) -> None:
        if _is_special(name):
            super().__delattr__(name)
        else:
            delattr(_package, name)

    def __dir__(self) -> list[str]:
        return dir(_package)


def _is_special(name: str) -> bool:
    """Whether the import system uses the attribute `name` of modules."""
    return name.startswith("__") and name.endswith("__")


class _Finder(MetaPathFinder):
    """Finds ``petastorm.x.y`` as ``mdstorm.x.y``."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != _THEIRS:
            return None
        if not rest:
            return ModuleSpec(fullname, _PackageLoader(), origin=_package.__file__, is_package=True)
        ours = f"{_OURS}.{rest}"
        spec = importlib.util.find_spec(ours)
        if spec is not None:
            is_package = spec.submodule_search_locations is not None
            loader = _ModuleLoader(ours)
            return ModuleSpec(fullname, loader, origin=spec.origin, is_package=is_package)
        if _is_only_asked():
            return None
        raise MissingModuleError(
            f"No module named {fullname!r}: this program runs with mdstorm in petastorm's place, "
            f"and mdstorm has no {ours}. docs/differences.md of mdstorm says which parts of "
            "Petastorm it leaves out, and what to use instead",
            name=fullname,
        )


def _is_only_asked() -> bool:
    """Whether `importlib.util.find_spec` is the caller: it returns None for missing modules."""
    finder = sys._getframe(1)
    machinery = finder.f_back  # importlib's loop over all finders
    asker = None if machinery is None else machinery.f_back
    return asker is not None and asker.f_globals.get("__name__") == "importlib.util"


class _PackageLoader(Loader):
    """Makes the package itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Petastorm(spec.name, _package.__doc__)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: its contents are mdstorm's."""


class _ModuleLoader(Loader):
    """Loads a module of mdstorm under its other name."""

    def __init__(self, ours: str) -> None:
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # It is complete. The import system has just overwritten its name and spec: restore them, so
        # that `importlib.reload` and pickle still find it by its own name.
        module.__spec__ = self._spec
