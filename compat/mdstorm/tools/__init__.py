"""Command line tools: the mirror of ``petastorm.tools``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
