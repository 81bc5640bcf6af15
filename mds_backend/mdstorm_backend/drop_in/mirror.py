"""A package whose modules are made from a table of names, which other modules define."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.abc import Loader, PathEntryFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from mdstorm_backend.drop_in.absent_names import AbsentNames

#: What the entries of ``__path__`` begin with: they are no folders.
_ENTRY = "mirror:"


class Mirror(Loader):
    """Makes the modules of a package that have the module paths of a library.

    A module has its own names and, as the library's modules import from each other, those of all
    others.

    Parameters
    ----------
    absent : AbsentNames
        The library, the package, and what that lacks.
    modules : mapping
        Path of each module below the package, ``""`` for itself → its names → the modules that
        define them. A name that the module itself is said to define is that of a module below it.

    Attributes
    ----------
    absent, modules
        The parameters.
    """

    def __init__(self, absent: AbsentNames, modules: Mapping[str, Mapping[str, str]]) -> None:
        self.absent = absent
        self.modules = modules
        self._homes = {name: home for names in modules.values() for name, home in names.items()}

    def mirror_from(self, package: ModuleType) -> None:
        """Give the package its names and its modules, when it is imported."""
        if self.finder not in sys.path_hooks:
            sys.path_hooks.insert(0, self.finder)
        self._stubs = Path(package.__file__ or "").parent
        name = package.__name__
        vars(package).update(__mirror__=self, __all__=self.exports(name), __path__=[_entry(name)])
        package.__class__ = MirrorModule

    def finder(self, entry: str) -> PathEntryFinder:
        """Return what finds the modules of a package by the entry of its ``__path__``."""
        module = entry.removeprefix(_ENTRY)
        if module == entry or self._path(module) not in self.modules:
            raise ImportError(f"{entry} is no package of {self.absent.package}")
        return _Finder(self, module)

    def spec(self, fullname: str) -> ModuleSpec | None:
        """Return the spec of a module of the table."""
        if self._path(fullname) not in self.modules:
            return None
        spec = ModuleSpec(fullname, self, is_package=any(True for _ in self.submodules(fullname)))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(_entry(fullname))
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which loads what it names when that is first asked for."""
        module = MirrorModule(spec.name, f"The mirror of ``{self.theirs(spec.name)}``.")
        stub = self._stubs.joinpath(*self._path(spec.name).split("."), "__init__.pyi")
        vars(module).update(
            __mirror__=self, __all__=self.exports(spec.name), __file__=os.fspath(stub)
        )
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a module of the table has no code."""

    def theirs(self, module: str) -> str:
        """Return the name that a module has in the library."""
        return self.absent.library + module.removeprefix(self.absent.package)

    def exports(self, module: str) -> list[str]:
        """Return the public names of a module."""
        return [name for name in self.modules[self._path(module)] if not name.startswith("_")]

    def submodules(self, module: str) -> Iterator[str]:
        """Yield the names of the modules right below a module."""
        path = self._path(module)
        for other in filter(None, self.modules):
            above, _, name = other.rpartition(".")
            if above == path:
                yield name

    def home(self, module: str, name: str) -> str | None:
        """Return the module that defines a name of a module; None if it is a module, or absent."""
        home = self.modules[self._path(module)].get(name)
        if home is None and name not in self.submodules(module):
            home = self._homes.get(name)
        return None if home == module else home

    def _path(self, module: str) -> str:
        return module.removeprefix(self.absent.package).removeprefix(".")


@dataclass(frozen=True)
class _Finder(PathEntryFinder):
    """Finds the modules of one package of a mirror, for imports and for `pkgutil`."""

    mirror: Mirror
    package: str

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return self.mirror.spec(fullname)

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        for name in self.mirror.submodules(self.package):
            yield prefix + name, any(True for _ in self.mirror.submodules(f"{self.package}.{name}"))


def _entry(package: str) -> str:
    """Return what stands in the ``__path__`` of a package of a mirror."""
    return _ENTRY + package


class MirrorModule(ModuleType):
    """A module of a mirror.

    Names are loaded on first use: some need PyTorch, and a program that only writes does not.
    """

    __mirror__: Mirror

    def __getattr__(self, name: str) -> Any:
        home = self.__mirror__.home(self.__name__, name)
        if home is not None:
            value = getattr(importlib.import_module(home), name)
        elif name in self.__mirror__.submodules(self.__name__):
            value = importlib.import_module(f"{self.__name__}.{name}")
        else:
            raise self.__mirror__.absent.error(self.__name__, name, sys._getframe(1))
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets each module on its package, which may have a function of that name.
        if isinstance(value, ModuleType) and self.__mirror__.home(self.__name__, name):
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self.__all__, *self.__mirror__.submodules(self.__name__)})
