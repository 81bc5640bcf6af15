"""The optional libraries: which module, which pip extra, imported on first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from mdstorm_backend.errors import MissingDependencyError

__all__ = ["require"]

_EXTRAS = {
    "pandas": ("pandas DataFrames", "spark"),
    "pyspark": ("Spark DataFrames", "spark"),
    "tensorflow": ("TensorFlow datasets", "tf"),
    "torch": ("PyTorch loaders", "torch"),
}


def require(module: str) -> ModuleType:
    """Import an optional library.

    Parameters
    ----------
    module : str
        Name of the top-level module, one of the libraries in this file's table.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If it is not installed; the message names the pip extra.
    """
    purpose, extra = _EXTRAS[module]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingDependencyError(
            f"{purpose} need the library {module!r}, which is not installed here. "
            f"Install it with: pip install 'mdstorm[{extra}]'",
            extra=extra,
        ) from error
