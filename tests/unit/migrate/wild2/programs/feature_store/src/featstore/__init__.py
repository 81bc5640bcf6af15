from .engines import get_engine, list_engines
from .store import FeatureStore

__all__ = ['FeatureStore', 'get_engine', 'list_engines']
