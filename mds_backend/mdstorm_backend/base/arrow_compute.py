"""The functions of `pyarrow.compute`, which is imported when the first of them is used.

Importing it creates hundreds of functions and their docstrings. In a process that has loaded
PyTorch this takes 0.1 s, and most programs that read numbers use none of these functions.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import pyarrow.compute

    found = globals()[name] = getattr(pyarrow.compute, name)
    return found
