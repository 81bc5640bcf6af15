"""The mirror of ``streaming.base.storage``."""
