"""What stands for every name that is looked up."""

from typing import Any


class _Absent:
    """Can be named, inherited from and used in annotations, as at import; cannot be constructed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("torchvision is not installed here; this is a stand-in for it")


def __getattr__(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (_Absent,), {})
