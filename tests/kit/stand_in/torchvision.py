"""Just enough of torchvision for `import composer` and `import streaming` to succeed.

Composer, MosaicML Streaming and (if torchvision is installed) torchmetrics look up its names when
they are imported. The wheels on PyPI work only with CUDA builds of torch. The tests use none of
these names, so each is a class that cannot be instantiated.
"""

import sys
from types import ModuleType
from typing import Any


class _Absent:
    """A class that can be subclassed and used in annotations, but not instantiated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torchvision is not installed; this is a stand-in")


def __getattr__(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (_Absent,), {})


for _name in (
    "datasets",
    "models",
    "models.resnet",
    "ops",
    "transforms",
    "transforms.functional",
    "utils",
):
    _module = ModuleType(f"torchvision.{_name}")
    vars(_module)["__getattr__"] = __getattr__
    sys.modules[_module.__name__] = _module
    _parent, _, _child = _module.__name__.rpartition(".")
    setattr(sys.modules[_parent], _child, _module)
