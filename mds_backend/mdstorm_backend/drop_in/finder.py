"""An import hook that resolves a library and its modules to a package of ours."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from mdstorm_backend.drop_in.absent_names import AbsentNames
from mdstorm_backend.errors import MissingModuleError


def install(absent: AbsentNames, version: str) -> None:
    """Put a finder for a library first, once, and replace its shim by the package."""
    library = absent.library
    finder = _Finder(absent, version)
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    if not isinstance(sys.modules.get(library), Alias):
        sys.modules.pop(library, None)
        importlib.import_module(library)


class Alias(ModuleType):
    """A package under another name: all attributes are its own, but for its name and version.

    Attributes set on it, for example by `unittest.mock.patch`, are set on the package.
    """

    def __init__(self, absent: AbsentNames, package: ModuleType, version: str) -> None:
        super().__init__(absent.library, package.__doc__)
        self.__absent__ = absent
        self.__aliased__ = package
        self.__version__ = version

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.__aliased__, name)
        except AttributeError:
            raise self.__absent__.error(self.__name__, name, sys._getframe(1)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_special(name):
            super().__setattr__(name, value)
        else:
            setattr(self.__aliased__, name, value)

    def __delattr__(self, name: str) -> None:
        if _is_special(name):
            super().__delattr__(name)
        else:
            delattr(self.__aliased__, name)

    def __dir__(self) -> list[str]:
        return dir(self.__aliased__)


def _is_special(name: str) -> bool:
    """Whether the import system uses the attribute `name` of modules."""
    return name.startswith("__") and name.endswith("__")


class _Finder(MetaPathFinder):
    """Finds ``library.x.y`` as ``package.x.y``."""

    def __init__(self, absent: AbsentNames, version: str) -> None:
        self._absent = absent
        self._version = version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Finder) and other._absent.library == self._absent.library

    def __hash__(self) -> int:
        return hash(self._absent.library)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        library, _, rest = fullname.partition(".")
        if library != self._absent.library:
            return None
        if not rest:
            package = importlib.import_module(self._absent.package)
            loader = _AliasLoader(self._absent, package, self._version)
            found = ModuleSpec(fullname, loader, origin=package.__file__, is_package=True)
            found.submodule_search_locations = list(package.__path__)
            return found
        ours = f"{self._absent.package}.{rest}"
        spec = importlib.util.find_spec(ours)
        if spec is not None:
            is_package = spec.submodule_search_locations is not None
            return ModuleSpec(
                fullname, _ModuleLoader(fullname, ours), origin=spec.origin, is_package=is_package
            )
        if _is_only_asked():
            return None
        raise MissingModuleError(
            f"No module named {fullname!r}: this program runs with mdstorm in {library}'s place, "
            f"and mdstorm has no {ours}. {self._absent.replacement(fullname) or self._absent.page} "
            "of mdstorm says what replaces it",
            name=fullname,
        )


def _is_only_asked() -> bool:
    """Whether `importlib.util.find_spec` is the caller: it returns None for missing modules."""
    finder = sys._getframe(1)
    machinery = finder.f_back  # importlib's loop over all finders
    asker = None if machinery is None else machinery.f_back
    return asker is not None and asker.f_globals.get("__name__") == "importlib.util"


class _AliasLoader(Loader):
    """Makes the package itself."""

    def __init__(self, absent: AbsentNames, package: ModuleType, version: str) -> None:
        self._absent = absent
        self._package = package
        self._version = version

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Alias(self._absent, self._package, self._version)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: its contents are the package's."""


class _ModuleLoader(Loader):
    """Loads a module of ours under its other name."""

    def __init__(self, theirs: str, ours: str) -> None:
        self._theirs = theirs
        self._ours = ours
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._ours)
        self._spec = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module, for ``mdstorm run -m petastorm.…``."""
        spec = importlib.util.find_spec(self._ours)
        loader = None if spec is None else spec.loader
        return loader.get_code(self._ours) if isinstance(loader, InspectLoader) else None

    def exec_module(self, module: ModuleType) -> None:
        # It is complete. The import system has just overwritten its name and spec: restore them, so
        # that `importlib.reload` and pickle still find it by its own name.
        module.__spec__ = self._spec
        # Modules that a package has imported already: importing one under its other name would set
        # it as an attribute of the package, which may have a function of that name.
        for name in [name for name in sys.modules if name.startswith(f"{self._ours}.")]:
            sys.modules.setdefault(self._theirs + name[len(self._ours) :], sys.modules[name])
