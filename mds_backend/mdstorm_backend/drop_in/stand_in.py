"""A package of ours under the name of another library: in this process, its children, Spark."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dis import opmap
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from mdstorm_backend.base import cached_property, warn_user
from mdstorm_backend.base.optional import when_loaded
from mdstorm_backend.errors import (
    AlreadyImportedError,
    MissingAttributeError,
    MissingModuleError,
    MissingNameError,
)


@dataclass(frozen=True)
class StandIn(MetaPathFinder, Loader):
    """Which package stands in for which library, whose modules it finds: those of the package.

    Attributes
    ----------
    absent : AbsentNames
        The library, our package, and what that lacks.
    version : str
        The library's release whose API this is: its ``__version__``.
    shim : Path
        A module with the library's name that installs this in processes which import it before
        any of ours. Its folder holds nothing else and is put on search paths. It sets
        ``STANDS_FOR_MDSTORM``.
    remedy : str
        What to do if the library was imported first.
    imported : type
        The error for that.
    """

    absent: AbsentNames
    version: str
    shim: Path
    remedy: str
    imported: type[AlreadyImportedError] = AlreadyImportedError

    def install(self) -> None:
        """Stand in from now on. Installing again does nothing.

        Raises
        ------
        AlreadyImportedError
            If the real library was imported already: its classes may be in use.
        """
        library = self.absent.library
        present = sys.modules.get(library)
        if present is not None and not _is_ours(present):
            raise self.imported(
                f"{library} was already imported, from "
                f"{getattr(present, '__file__', None)!r}, and its classes may be in use. "
                f"{self.remedy}"
            )
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if not isinstance(sys.modules.get(library), Alias):
            sys.modules.pop(library, None)
            importlib.import_module(library)
        _reach_other_processes(self.shim.parent)
        when_loaded(_ENTRANCES, _sender_of(self.shim))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find ``library.x.y`` as ``package.x.y``."""
        library, dot, _ = fullname.partition(".")
        if library != self.absent.library:
            return None
        ours = self._ours(fullname)
        found = importlib.util.find_spec(ours)
        if found is not None:
            is_package = found.submodule_search_locations is not None
            spec = ModuleSpec(fullname, self, origin=found.origin, is_package=is_package)
            if not dot:
                spec.submodule_search_locations = found.submodule_search_locations
            return spec
        if _is_only_asked(sys._getframe()):
            return None
        raise MissingModuleError(
            f"No module named {fullname!r}: this program runs with mdstorm in {library}'s place, "
            f"and mdstorm has no {ours}. {self.absent.replacement(fullname) or self.absent.page} "
            "of mdstorm says what replaces it",
            name=fullname,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of ours; the package itself has a name and a version of its own."""
        module = importlib.import_module(self._ours(spec.name))
        if spec.name == self.absent.library:
            return Alias(self.absent, module, self.version)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import system has just overwritten: the module is complete.

        So `importlib.reload` and pickle still find it by its own name.
        """
        if module.__spec__ is not None and not isinstance(module, Alias):
            module.__spec__ = module.__spec__.loader_state
        # Modules that are there already: importing one under its other name would set it as an
        # attribute of its package, which may have a function of that name.
        ours = f"{self.absent.package}."
        for name in [name for name in sys.modules if name.startswith(ours)]:
            theirs = f"{self.absent.library}.{name.removeprefix(ours)}"
            sys.modules.setdefault(theirs, sys.modules[name])

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module, for ``mdstorm run -m petastorm.…``."""
        ours = self._ours(fullname)
        spec = importlib.util.find_spec(ours)
        loader = None if spec is None else spec.loader
        return loader.get_code(ours) if isinstance(loader, InspectLoader) else None

    def _ours(self, fullname: str) -> str:
        return self.absent.package + fullname.removeprefix(self.absent.library)


def _is_ours(module: object) -> bool:
    """Whether `module` is the stand-in, or its shim that is just being imported."""
    return hasattr(module, "STANDS_FOR_MDSTORM") or isinstance(module, Alias)


def _reach_other_processes(shim_folder: Path) -> None:
    """Put the shim on the search path of processes that this one starts."""
    folder = str(shim_folder)
    # Second: the first entry belongs to the program, as after `python program.py`. The path is what
    # multiprocessing hands to the processes that it spawns, the variable is for all others.
    if folder not in sys.path:
        sys.path.insert(1, folder)
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, inherited]))


_IMPORT_FROM = opmap["IMPORT_FROM"]


@dataclass(frozen=True)
class AbsentNames:
    """The names of a library that its stand-in lacks.

    Attributes
    ----------
    library, package : str
        The library, and ours in its place.
    page : str
        The page that says what replaces each name.
    sections : mapping of str to tuple of str
        Anchor of a section of the page → the names it is about: dotted paths below the library, or
        ``*.name`` for a name of whatever module.
    homes : mapping of str to str
        Names that are looked for in other modules than their own, and those.
    """

    library: str
    package: str
    page: str
    sections: Mapping[str, tuple[str, ...]]
    homes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[str, str]:
        """Each of the names, and the anchor of its section."""
        return {name: section for section, names in self.sections.items() for name in names}

    def replacement(self, path: str) -> str | None:
        """Return where the page says what replaces a name, as ``page#section``.

        Parameters
        ----------
        path : str
            Dotted path that begins with the library or the package: what is in the table, or is
            part of that.

        Returns
        -------
        str or None
            None if neither is there.
        """
        parts = path.removeprefix(self.package).removeprefix(self.library).split(".")[1:]
        paths = [".".join(parts[:stop]) for stop in range(len(parts), 0, -1)]
        for name in [*paths, f"*.{parts[-1]}"]:
            if name in self.names:
                return f"{self.page}#{self.names[name]}"
        return None

    def refuse_import(self, path: str) -> None:
        """Raise MissingModuleError for a module of the package that is in the table, as finders do.

        Not if `importlib.util.find_spec` asks for it, which returns None for missing modules.
        """
        place = self.replacement(path)
        if place is not None and not _is_only_asked(sys._getframe(1)):
            raise MissingModuleError(
                f"No module named {path!r}: {place} of mdstorm says what replaces it", name=path
            )

    def error(self, module: str, name: str, asker: FrameType) -> Exception:
        """Return the error for a name that a module lacks.

        Parameters
        ----------
        module : str
            The module, as whoever asks calls it.
        name : str
            The name.
        asker : frame
            Who asks. Of an `AttributeError` within ``from module import name`` Python shows
            nothing, so that an `ImportError` is due there, and only there: `hasattr` expects the
            former.
        """
        place = self.replacement(f"{module}.{name}")
        theirs = self.library + module.removeprefix(self.package).removeprefix(self.library)
        if place is not None:
            message = (
                f"mdstorm has no counterpart of {theirs}.{name}: {place} says what replaces it"
            )
        elif name in self.homes:
            message = f"it is {self.homes[name]}.{name}"
        else:
            return AttributeError(f"module {module!r} has no attribute {name!r}")
        if asker.f_code.co_code[asker.f_lasti] == _IMPORT_FROM:
            return MissingNameError(f"cannot import name {name!r} from {module!r}: {message}")
        return MissingAttributeError(f"module {module!r} has no attribute {name!r}: {message}")


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


def _is_only_asked(finder: FrameType) -> bool:
    """Whether `importlib.util.find_spec` calls a finder: it returns None for missing modules."""
    machinery = finder.f_back  # importlib's loop over all finders
    asker = None if machinery is None else machinery.f_back
    return asker is not None and asker.f_globals.get("__name__") == "importlib.util"


#: The class that every way of creating a session uses. PySpark 4 moved the first one.
_ENTRANCES = {
    "pyspark.context": "SparkContext",
    "pyspark.core.context": "SparkContext",
    "pyspark.sql.connect.session": "SparkSession",
}

#: The attribute of a patched constructor that lists the shims it sends.
_SHIMS = "_shims_of_mdstorm"


@functools.lru_cache
def _sender_of(shim: Path) -> Callable[[ModuleType], object]:
    """Return what lets the sessions of a module of PySpark send the module `shim` to workers."""
    return functools.partial(_send_from, shim=shim)


def _send_from(module: ModuleType, shim: Path) -> None:
    """Let the sessions of a module send the shim, the present one now."""
    entrance = getattr(module, _ENTRANCES[module.__name__])
    construct = entrance.__init__
    shims: list[Path] = getattr(construct, _SHIMS, [])
    if shim in shims:
        return
    shims.append(shim)
    if not hasattr(construct, _SHIMS):

        @functools.wraps(construct)
        def construct_and_send(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            for each in shims:
                _send(self, each)

        setattr(construct_and_send, _SHIMS, shims)
        entrance.__init__ = construct_and_send
    is_classic = entrance.__name__ == "SparkContext"
    present = entrance._active_spark_context if is_classic else entrance.getActiveSession()
    if present is not None:
        _send(present, shim)


def _send(spark: Any, shim: Path) -> None:
    """Send the shim to the workers of a SparkContext or of a Spark Connect session."""
    try:
        if hasattr(spark, "addArtifact"):
            spark.addArtifact(str(shim), pyfile=True)
        else:
            spark.addPyFile(str(shim))
    except Exception as error:
        warn_user(
            f"Spark's workers will not find {shim.stem}: {shim.name} could not be sent to them, "
            f"{type(error).__name__}: {error}. The driver is not affected. Functions that run on "
            "workers can import the same names from mdstorm's own packages"
        )
