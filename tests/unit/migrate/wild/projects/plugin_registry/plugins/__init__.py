import importlib
import pkgutil

REGISTRY = {}


def register(name):
    def deco(cls):
        REGISTRY[name] = cls
        return cls
    return deco


def load_all():
    for m in pkgutil.iter_modules(__path__):
        importlib.import_module("plugins." + m.name)
