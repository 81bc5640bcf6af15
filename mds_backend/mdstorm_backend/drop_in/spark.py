"""Make the shims of stand-ins importable in Spark's Python workers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from mdstorm_backend.base import warn_user
from mdstorm_backend.base.optional import when_loaded

#: The class that every way of creating a session uses. PySpark 4 moved the first one.
_ENTRANCES = {
    "pyspark.context": "SparkContext",
    "pyspark.core.context": "SparkContext",
    "pyspark.sql.connect.session": "SparkSession",
}

#: The attribute of a patched constructor that lists the shims it sends.
_SHIMS = "_shims_of_mdstorm"


def install(shim: Path) -> None:
    """Send the module `shim` to the workers of all sessions, present and future.

    This does not import PySpark: if it is not loaded yet, its session classes are patched when they
    are loaded.
    """
    when_loaded(_ENTRANCES, _sender_of(shim))


@functools.lru_cache
def _sender_of(shim: Path) -> Callable[[ModuleType], object]:
    return functools.partial(_send_from, shim=shim)


def _send_from(module: ModuleType, shim: Path) -> None:
    """Let the sessions of a module send the shim, the present one now."""
    if _complete(module, shim):
        _send_to_present_session(getattr(module, _ENTRANCES[module.__name__]), shim)


def _complete(module: ModuleType, shim: Path) -> bool:
    """Patch the constructor in `module` to send the shim; False if it already does."""
    entrance = getattr(module, _ENTRANCES[module.__name__])
    construct = entrance.__init__
    shims: list[Path] = getattr(construct, _SHIMS, [])
    if shim in shims:
        return False
    shims.append(shim)
    if not hasattr(construct, _SHIMS):

        @functools.wraps(construct)
        def construct_and_send(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            for each in shims:
                _send(self, each)

        setattr(construct_and_send, _SHIMS, shims)
        entrance.__init__ = construct_and_send
    return True


def _send_to_present_session(entrance: Any, shim: Path) -> None:
    """Send the shim to this process's current session, if any."""
    if entrance.__name__ == "SparkContext":
        present = entrance._active_spark_context
    else:
        present = entrance.getActiveSession()
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
