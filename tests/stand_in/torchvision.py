"""Just enough of torchvision for `import composer` and `import streaming` to succeed.

Composer, MosaicML Streaming, and torchmetrics where there is a torchvision, look up its names when
they are imported. The wheels on PyPI load with torch's builds for CUDA only. The tests use none of
those names: here, each is a class that cannot be instantiated.
"""

import sys
from types import ModuleType
from typing import Any


class _Absent:
    """Can be named, inherited from and used in annotations, as at import; cannot be constructed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torchvision is not installed here; this is a stand-in for it")


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
