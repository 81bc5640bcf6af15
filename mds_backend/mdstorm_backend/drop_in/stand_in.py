"""A package of ours under the name of another library: in this process, its children, Spark."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mdstorm_backend.drop_in import finder, spark
from mdstorm_backend.drop_in.absent_names import AbsentNames
from mdstorm_backend.errors import AlreadyImportedError


@dataclass(frozen=True)
class StandIn:
    """Which package stands in for which library.

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
        finder.install(self.absent, self.version)
        _reach_other_processes(self.shim.parent)
        spark.install(self.shim)


def _is_ours(module: object) -> bool:
    """Whether `module` is the stand-in, or its shim that is just being imported."""
    return hasattr(module, "STANDS_FOR_MDSTORM") or isinstance(module, finder.Alias)


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
