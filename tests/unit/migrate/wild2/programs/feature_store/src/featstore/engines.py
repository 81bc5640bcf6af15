import enum


class EngineName(str, enum.Enum):
    PETASTORM = 'petastorm'
    MEMORY = 'memory'


_ENGINES = {}


def engine(name):
    def register(cls):
        _ENGINES[EngineName(name)] = cls
        return cls
    return register


def get_engine(name):
    from . import petastorm_engine  # noqa: F401  registers itself
    return _ENGINES[EngineName(name)]


def list_engines():
    get_engine(EngineName.PETASTORM)
    return sorted(e.value for e in _ENGINES)
