"""Command line tools: the mirror of ``petastorm.tools``."""
