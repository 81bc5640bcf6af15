"""Make a package importable under a library's name, also in child processes and Spark workers."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from dataclasses import dataclass
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base import warn_user, when_loaded
from mdstorm_backend.drop_in.absent_names import AbsentNames, is_in_find_spec


@dataclass(frozen=True)
class StandIn(MetaPathFinder, Loader):
    """A finder that makes our package's modules importable under a library's names.

    Attributes
    ----------
    absent : AbsentNames
        The library, our package, and the names that our package does not have.
    version : str
        The library's release whose API this is: its ``__version__``.
    shim : Path
        A module with the library's name, which installs the stand-in in processes that import the
        library before any module of ours. Its folder holds nothing else and is put on search paths.
        The module sets ``STANDS_FOR_MDSTORM``.
    remedy : str
        What to do if the library was imported before the stand-in was installed.
    imported : type
        The class of the error in that case.
    """

    absent: AbsentNames
    version: str
    shim: Path
    remedy: str
    imported: type[errors.AlreadyImportedError] = errors.AlreadyImportedError

    def install(self) -> None:
        """Make our package importable under the library's name. Installing it again does nothing.

        Raises
        ------
        AlreadyImportedError
            If the real library was imported already: its classes may be in use.
        """
        library = self.absent.library
        present = sys.modules.get(library)
        is_ours = hasattr(present, "STANDS_FOR_MDSTORM") or isinstance(present, Alias)
        # The shim may be present while it is being imported
        if present is not None and not is_ours:
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
        when_loaded(_ENTRANCES, self._send_from)

    def _send_from(self, module: ModuleType) -> None:
        """Send the shim to Spark's workers: now in the active session, later in each new one."""
        entrance = getattr(module, _ENTRANCES[module.__name__])
        construct = entrance.__init__
        mark = f"_sends_{self.shim.stem}_for_mdstorm"
        if hasattr(construct, mark):
            return

        @functools.wraps(construct)
        def construct_and_send(spark: Any, *args: Any, **kwargs: Any) -> None:
            construct(spark, *args, **kwargs)
            send_shim(spark, self.shim)

        setattr(construct_and_send, mark, True)
        entrance.__init__ = construct_and_send
        is_classic = entrance.__name__ == "SparkContext"
        present = entrance._active_spark_context if is_classic else entrance.getActiveSession()
        if present is not None:
            send_shim(present, self.shim)

    def find_spec(self, fullname: str, *where: object) -> ModuleSpec | None:
        """Return a spec for ``library.x.y`` that loads ``package.x.y`` from our package."""
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
        if is_in_find_spec(sys._getframe()):
            return None
        raise errors.MissingModuleError(
            f"No module named {fullname!r}: this program runs with mdstorm in {library}'s place, "
            f"and mdstorm has no {ours}. {self.absent.replacement(fullname) or self.absent.page} "
            "of mdstorm describes the replacement",
            name=fullname,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return our module or, for the library itself, an `Alias` with its name and version."""
        module = importlib.import_module(self._ours(spec.name))
        if spec.name == self.absent.library:
            return Alias(self.absent, module, self.version)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has just overwritten.

        The module is already executed. `importlib.reload` and pickle still find it by its own name.
        """
        if module.__spec__ is not None and not isinstance(module, Alias):
            module.__spec__ = module.__spec__.loader_state
        # Register all loaded modules under the library's names at once: if a module were imported
        # later under such a name, the import would set the module as an attribute of its package,
        # and could replace a function of the same name.
        ours = f"{self.absent.package}."
        for name in [name for name in sys.modules if name.startswith(ours)]:
            theirs = f"{self.absent.library}.{name.removeprefix(ours)}"
            sys.modules.setdefault(theirs, sys.modules[name])

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, for ``mdstorm run -m petastorm.…``."""
        ours = self._ours(fullname)
        spec = importlib.util.find_spec(ours)
        loader = None if spec is None else spec.loader
        return loader.get_code(ours) if isinstance(loader, InspectLoader) else None

    def _ours(self, fullname: str) -> str:
        return self.absent.package + fullname.removeprefix(self.absent.library)


def _reach_other_processes(shim_folder: Path) -> None:
    """Put the shim on the search path of processes that this process starts."""
    folder = str(shim_folder)
    # Inserted second, because the first entry is the program's folder, as after `python
    # program.py`. multiprocessing passes sys.path to the processes that it spawns; the environment
    # variable is for all other processes.
    if folder not in sys.path:
        sys.path.insert(1, folder)
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, inherited]))


class Alias(ModuleType):
    """A package under another name: apart from name and version, its attributes are the package's.

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
    """Whether `name` is an attribute that the import system sets on modules."""
    return name.startswith("__") and name.endswith("__")


#: PySpark's modules → the class that every session constructs. In PySpark 4, `SparkContext` is in
#: another module.
_ENTRANCES = {
    "pyspark.context": "SparkContext",
    "pyspark.core.context": "SparkContext",
    "pyspark.sql.connect.session": "SparkSession",
}


def send_shim(spark: Any, shim: Path) -> None:
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
