"""Command line tools: the mirror of ``petastorm.tools``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
