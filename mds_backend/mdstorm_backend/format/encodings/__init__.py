"""The encodings of the MDS format: one class per kind, and a registry of them.

An index describes an encoding by a string such as ``"int32"``, ``"str"`` or
``"ndarray:float32:3"``, for which `registry.parse_encoding` returns an `Encoding`. An encoding
whose values all take the same number of bytes is *fixed-size*; one that cannot be decoded, for
example because it is unknown, is *opaque*.

Each module of this folder is imported here, so that its encodings register themselves.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
