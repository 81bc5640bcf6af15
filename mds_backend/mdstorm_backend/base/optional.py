"""Import optional libraries on first use, or say how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

from mdstorm_backend.errors import MissingDependencyError

#: Module → what needs it, and the extra that installs it. pandas has none: the extra for Spark
#: would install pyspark where Databricks has its own.
_EXTRAS = {
    "databricks.sdk": ("Unity Catalog volumes and dbfs: paths without a mount", "databricks"),
    "PIL": ("Images", "images"),
    "deltalake": ("Delta tables", "delta"),
    "lightning.pytorch": ("mdstorm.lightning's data modules", ""),
    "mlflow": ("Metrics in MLflow", ""),
    "pandas": ("pandas DataFrames", ""),
    "pyspark": ("Spark DataFrames", "spark"),
    "pytorch_lightning": ("mdstorm.pytorch_lightning's data modules", ""),
    "tensorflow": ("TensorFlow datasets", "tf"),
    "torch": ("PyTorch loaders", "torch"),
    "torchvision": ("Images of vision datasets without a transform of their own", ""),
    "transformers": ("Trainers of Hugging Face", ""),
    "xxhash": ("Hashes of the xxh family", "xxhash"),
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
        If it is not installed; the message says what to install.
    """
    purpose, extra = _EXTRAS[module]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise
        package = f'"mdstorm[{extra}]"' if extra else module
        raise MissingDependencyError(
            f"{purpose} need the library {module!r}, which is not installed here. "
            f"Install it with: pip install {package}",
            extra=extra,
            name=module,
        ) from error
