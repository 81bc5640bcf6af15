"""Make the shims of stand-ins importable in Spark's Python workers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from mdstorm_backend.base import warn_user

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
    for name in _ENTRANCES:
        if name in sys.modules:
            module = sys.modules[name]
            if _complete(module, shim):
                _send_to_present_session(getattr(module, _ENTRANCES[name]), shim)
    finder = next((each for each in sys.meta_path if isinstance(each, _PySparkFinder)), None)
    if finder is None:
        finder = _PySparkFinder()
        sys.meta_path.insert(0, finder)
    if shim not in finder.shims:
        finder.shims.append(shim)


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


class _PySparkFinder(MetaPathFinder):
    """Notices when PySpark's session classes are loaded; finds what the other finders find.

    Attributes
    ----------
    shims : list of Path
        What these classes are to send.
    """

    def __init__(self) -> None:
        self.shims: list[Path] = []

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in _ENTRANCES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                break
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._complete)
        return spec

    def _complete(self, module: ModuleType) -> None:
        for shim in self.shims:
            _complete(module, shim)


class _Loader(Loader):
    """Loads a module with its own loader, then calls a function."""

    def __init__(self, loader: Any, done: Callable[[ModuleType], object]) -> None:
        self._loader = loader
        self._done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)
