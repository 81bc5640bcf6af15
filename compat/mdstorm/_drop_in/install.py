"""`install_as_petastorm`: run programs that import `petastorm` on mdstorm, unedited."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mdstorm._drop_in import finder, spark
from mdstorm.errors import PetastormImportedError

#: Holds only `petastorm.py`, so that it can be put on the search path of other processes.
_SHIM_FOLDER = Path(__file__).with_name("shim")
_SHIM = _SHIM_FOLDER / "petastorm.py"


def install_as_petastorm() -> None:
    """Make ``import petastorm`` import mdstorm, as PyMySQL's `install_as_MySQLdb` does for MySQLdb.

    From then on `petastorm` and each of its modules that mdstorm has are those of mdstorm: the same
    module and class objects under both names. This holds

    - in this process, and its forks;
    - in Python processes that it starts (`multiprocessing`, workers of a torch ``DataLoader``,
      `subprocess` with the inherited environment): a folder that holds only a stand-in for
      `petastorm` is added to ``PYTHONPATH`` and `sys.path`;
    - in Spark's workers, where mdstorm must also be installed: existing and future sessions get the
      stand-in with ``addPyFile``, on Spark Connect with ``addArtifact``;
    - for pickles made with Petastorm, which name its modules.

    ``petastorm.__version__`` is 0.13.1, the version whose API this is. Modules of Petastorm that
    mdstorm lacks cannot be imported; the error says where the differences are documented.

    Call it before the first ``import petastorm``; calling it again does nothing. It imports neither
    pyspark nor a framework.

    Raises
    ------
    PetastormImportedError
        If the real Petastorm was imported already: its classes may be in use. An `ImportError`.
    """
    present = sys.modules.get("petastorm")
    if present is not None and not _is_ours(present):
        raise PetastormImportedError(
            f"petastorm was already imported, from {getattr(present, '__file__', None)!r}, and its "
            "classes may be in use. Call mdstorm.install_as_petastorm() first, before anything "
            "imports petastorm, or run the program unedited with: mdstorm run program.py"
        )
    finder.install()
    _reach_other_processes()
    spark.install(_SHIM)


def _is_ours(module: object) -> bool:
    """Whether `module` is mdstorm's, or the stand-in that is just being imported."""
    is_shim = hasattr(module, "STANDS_FOR_MDSTORM")
    return is_shim or isinstance(module, finder.Petastorm)


def _reach_other_processes() -> None:
    """Put the stand-in on the search path of processes that this one starts."""
    folder = str(_SHIM_FOLDER)
    # Second: the first entry belongs to the program, as after `python program.py`. The path is what
    # multiprocessing hands to the processes that it spawns, the variable is for all others.
    if folder not in sys.path:
        sys.path.insert(1, folder)
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, inherited]))
