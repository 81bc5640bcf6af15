"""Parts that copies of Petastorm's loaders are made of: the mirror of ``petastorm.reader_impl``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
