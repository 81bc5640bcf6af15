"""The mirror of ``streaming.text``."""
