"""A package whose modules are made from a table of names, which other modules define."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mdstorm_backend.drop_in.absent_names import AbsentNames


class Mirror(MetaPathFinder, Loader):
    """Finds and makes the modules of a package that have the module paths of a library.

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

    def mirror_from(self, package: ModuleType) -> None:
        """Give the package its names and its modules, when it is imported."""
        if self not in sys.meta_path:
            # First: a finder of files takes the folders of the stubs for namespace packages.
            sys.meta_path.insert(0, self)
        vars(package).update(__mirror__=self, __all__=self.exports(package.__name__))
        package.__class__ = MirrorModule

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a module of the table."""
        package = self.absent.package
        if not fullname.startswith(f"{package}.") or self._path(fullname) not in self.modules:
            return None
        is_package = any(True for _ in self.submodules(fullname))
        return ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which loads what it names when that is first asked for."""
        module = MirrorModule(spec.name, f"The mirror of ``{self.theirs(spec.name)}``.")
        vars(module).update(__mirror__=self, __all__=self.exports(spec.name))
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
        """Return the module that defines a name of a module, None for a module below it."""
        home = self.modules[self._path(module)].get(name)
        return None if home == module else home

    def _path(self, module: str) -> str:
        return module.removeprefix(self.absent.package).removeprefix(".")


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
