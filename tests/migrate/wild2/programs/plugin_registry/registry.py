"""entry-point like plugins: 'package.module:attribute' strings"""
import importlib

_PLUGINS = {}
DEFAULTS = {
    'batch': 'petastorm:make_batch_reader',
    'rows': 'petastorm.reader:make_reader',
}


def register(name):
    def deco(cls):
        _PLUGINS[name] = cls
        return cls
    return deco


def names():
    return sorted(_PLUGINS)


def build(name, *a, **k):
    return _PLUGINS[name](*a, **k)


def load_object(path, default=None):
    mod, _, attr = path.partition(':')
    try:
        return getattr(importlib.import_module(mod), attr)
    except ImportError:
        return default
