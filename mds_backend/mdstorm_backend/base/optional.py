"""Import optional libraries on first use, and call functions once modules are loaded.

The finder and the loader do not derive from the classes in `importlib.abc`, because importing that
module takes longer than everything else here.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

from mdstorm_backend.errors import MissingDependencyError

#: Module → the feature that needs it, and the extra that installs it. No extra is listed for
#: pandas: the one for Spark would also install pyspark, which Databricks provides itself.
_EXTRAS = {
    "databricks.sdk": (
        "Tables by name, Unity Catalog volumes and dbfs: paths without a mount",
        "databricks",
    ),
    "PIL": ("Images", "images"),
    "deltalake": ("Delta tables", "delta"),
    "lightning.pytorch": ("mdstorm.lightning's data modules", ""),
    "mlflow": ("Inputs and states in MLflow", "mlflow"),
    "pandas": ("pandas DataFrames", ""),
    "pyiceberg": ("Iceberg tables", "iceberg"),
    "pyspark": ("Spark DataFrames", "spark"),
    "pytorch_lightning": ("mdstorm.pytorch_lightning's data modules", ""),
    "tensorflow": ("TensorFlow datasets", "tf"),
    "torch": ("PyTorch loaders", "torch"),
    "torchvision": ("Images of vision datasets without their own transform", ""),
    "transformers": ("Hugging Face trainers", ""),
    "xxhash": ("Hashes of the xxh family", "xxhash"),
}


def require(module: str) -> ModuleType:
    """Import an optional library.

    Parameters
    ----------
    module : str
        Name of the module, one of the keys of ``_EXTRAS``.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If the library is not installed; the message explains how to install it.
    """
    purpose, extra = _EXTRAS[module]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (module, module.partition(".")[0]):
            raise
        package = f'"mdstorm[{extra}]"' if extra else module
        raise MissingDependencyError(
            f"{purpose} need the library {module!r}, which is not installed. "
            f"Install it with: pip install {package}",
            extra=extra,
            name=module,
        ) from error


Done: TypeAlias = Callable[[ModuleType], object]


def when_loaded(names: Iterable[str], function: Done) -> None:
    """Call a function with each named module: now if the module is loaded, otherwise once it is.

    Parameters
    ----------
    names : iterable of str
        Full names of modules, which need not exist.
    function : callable
        Called with the module, possibly more than once.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for name in names:
        functions = _finder.functions.setdefault(name, [])
        if function not in functions:
            functions.append(function)
        if name in sys.modules:
            function(sys.modules[name])


def wrap(owner: object, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a function in a module or class with the wrapper that `make` returns for it.

    Does nothing if there is no such function, or if it is already wrapped.
    """
    function = getattr(owner, name, None)
    if function is None or hasattr(function, "_is_wrapped_by_mdstorm"):
        return
    wrapper: Any = functools.wraps(function)(make(function))
    wrapper._is_wrapped_by_mdstorm = True
    setattr(owner, name, wrapper)


class _Finder:
    """An import finder that delegates to the other finders, and calls functions after imports.

    Attributes
    ----------
    functions : dict
        The functions to call with each module, by its name.
    """

    def __init__(self) -> None:
        self.functions: dict[str, list[Done]] = {}

    def find_spec(self, fullname: str, *where: Any) -> ModuleSpec | None:
        if fullname not in self.functions:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, *where) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._loaded)  # type: ignore[assignment]
        return spec

    def _loaded(self, module: ModuleType) -> None:
        for function in self.functions[module.__name__]:
            function(module)


_finder = _Finder()


class _Loader:
    """Loads a module with its original loader, then calls a function."""

    def __init__(self, loader: Any, done: Done) -> None:
        self._loader = loader
        self._done = done

    def __getattr__(self, name: str) -> Any:
        # Methods such as get_source are called even if the module was found but not loaded.
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)
