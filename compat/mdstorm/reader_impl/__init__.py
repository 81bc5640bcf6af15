"""Buffers used by copies of Petastorm's loaders, mirroring ``petastorm.reader_impl``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
