"""`install_as_petastorm`: let programs that import `petastorm` run on mdstorm, unmodified."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from types import ModuleType
from typing import Any

from mdstorm._petastorm_names import ABSENT
from mdstorm.errors import PetastormImportedError
from mdstorm_backend.base import when_loaded
from mdstorm_backend.drop_in import StandIn

_PETASTORM = StandIn(
    absent=ABSENT,
    version="0.13.1",
    shim=Path(__file__).parent / "shim" / "petastorm.py",
    remedy=(
        "Call mdstorm.install_as_petastorm() first, before anything imports petastorm, or run the "
        "program unedited with: mdstorm run program.py"
    ),
    imported=PetastormImportedError,
)

#: The class of ``spark.conf``, by its module.
_CLASSES = {"pyspark.sql.conf": "RuntimeConfig", "pyspark.sql.connect.conf": "RuntimeConf"}
#: Prefixes of the conf keys that only mdstorm and Petastorm read, so Spark does not need them.
_OWN = ("mdstorm.", "petastorm.")
_logger = logging.getLogger(__name__)
#: Conf values that a session refused to set, by key; shared by all sessions of this process.
_kept: dict[str, str] = {}


def install_as_petastorm() -> None:
    """Make ``import petastorm`` import mdstorm, as PyMySQL's `install_as_MySQLdb` does for MySQLdb.

    From then on, `petastorm` and its modules are mdstorm's: the same module and class
    objects under both names. This holds

    - in this process, and its forks;
    - in Python processes that it starts (`multiprocessing`, workers of a torch ``DataLoader``,
      `subprocess` with the inherited environment): a folder that holds only a stand-in for
      `petastorm` is added to ``PYTHONPATH`` and `sys.path`;
    - in Spark's workers, where mdstorm must also be installed: existing and future sessions get the
      stand-in with ``addPyFile``, on Spark Connect with ``addArtifact``;
    - for pickles made with Petastorm, which name its modules.

    Call it before the first ``import petastorm``; calling it again does nothing. It imports neither
    pyspark nor a framework.

    If a Spark session refuses ``spark.conf.set`` for a key that begins with ``petastorm.`` or
    ``mdstorm.``, as serverless compute does, this process keeps the value, and ``spark.conf.get``
    returns it.

    The logger ``petastorm`` controls what mdstorm logs, by its level, handlers and `propagate`.

    ``petastorm.__version__`` is 0.13.1, the version of the API. Importing a module of Petastorm
    that mdstorm does not have raises an error with its section.

    Raises
    ------
    PetastormImportedError
        If the real Petastorm was already imported, because its classes may be in use. Also an
        `ImportError`.
    """
    _PETASTORM.install()
    when_loaded(_CLASSES, keep_refused_confs)
    ours, theirs = logging.getLogger("mdstorm"), logging.getLogger("petastorm")
    if ours.parent is not theirs:
        theirs.parent, ours.parent = ours.parent, theirs
    theirs.setLevel(theirs.level)  # clears the loggers' cached levels


def keep_refused_confs(module: ModuleType) -> None:
    """Patch a module's conf class once, to keep values of `_OWN` keys that a session refuses."""
    conf = getattr(module, _CLASSES[module.__name__])
    if hasattr(conf.set, "keeps_for_mdstorm"):
        return
    set_, get, unset = conf.set, conf.get, conf.unset

    @functools.wraps(set_)
    def set_or_keep(self: Any, key: str, value: Any) -> None:
        try:
            set_(self, key, value)
        except Exception as error:
            from mdstorm_backend.spark import is_refusal  # imported late, because it imports Arrow

            if not (isinstance(key, str) and key.startswith(_OWN) and is_refusal(error)):
                raise
            _kept[key] = str(value)
            _logger.info(
                "this Spark session refuses the conf %s: its value is kept in this process",
                key,
            )
        else:
            _kept.pop(key, None)

    @functools.wraps(get)
    def get_or_kept(self: Any, key: str, *default: Any, **named: Any) -> Any:
        return _kept[key] if key in _kept else get(self, key, *default, **named)

    @functools.wraps(unset)
    def unset_kept(self: Any, key: str) -> None:
        if _kept.pop(key, None) is None:
            unset(self, key)

    set_or_keep.keeps_for_mdstorm = True  # type: ignore[attr-defined]
    conf.set, conf.get, conf.unset = set_or_keep, get_or_kept, unset_kept
