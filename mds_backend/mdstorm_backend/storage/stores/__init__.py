"""The stores behind URLs: one class per store, and a registry of them by scheme.

Each module of this folder is imported here, so that its stores register themselves.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
