"""`install_as_petastorm`: run programs that import `petastorm` on mdstorm, unedited."""

from __future__ import annotations

import logging
from pathlib import Path

from mdstorm._drop_in import kept_conf
from mdstorm._petastorm_names import ABSENT
from mdstorm.errors import PetastormImportedError
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

#: Loggers of Petastorm's, and those of mdstorm that log the same; one that is above another first.
_PAIRS = {
    "petastorm": "mdstorm",
    "petastorm.pytorch": "mdstorm._torch.loader",
    "petastorm.reader": "mdstorm.reader",
    "petastorm.spark": "mdstorm.spark",
    "petastorm.spark.spark_dataset_converter": "mdstorm.spark.spark_dataset_converter",
}


def install_as_petastorm() -> None:
    """Make ``import petastorm`` import mdstorm, as PyMySQL's `install_as_MySQLdb` does for MySQLdb.

    From then on, `petastorm` and its modules are those of mdstorm: the same module and class
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

    The loggers ``petastorm``, ``petastorm.reader``, ``petastorm.pytorch`` and ``petastorm.spark…``
    control what mdstorm logs, by their levels, handlers and `propagate`.

    ``petastorm.__version__`` is 0.13.1, the version of the API. Importing a module of Petastorm
    that mdstorm lacks raises an error that says where the differences are documented.

    Raises
    ------
    PetastormImportedError
        If the real Petastorm was already imported, because its classes may be in use. Also an
        `ImportError`.
    """
    _PETASTORM.install()
    kept_conf.install()
    _join_loggers()


def _join_loggers() -> None:
    """Put each of Petastorm's loggers above that of mdstorm; again does nothing.

    Levels and handlers of both hold, those of ``mdstorm`` first: a record goes from
    ``mdstorm.reader`` to ``petastorm.reader``, ``mdstorm``, ``petastorm`` and the root logger.
    """
    for theirs, ours in _PAIRS.items():
        logging.getLogger(ours.rpartition(".")[0])  # made later, it would take theirs' place
        below, above = logging.getLogger(ours), logging.getLogger(theirs)
        if below.parent is not above:
            above.parent, below.parent = below.parent, above
    above.setLevel(above.level)  # forgets which levels loggers have had until now
