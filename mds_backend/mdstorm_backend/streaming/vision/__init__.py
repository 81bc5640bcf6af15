"""The mirror of ``streaming.vision``."""
