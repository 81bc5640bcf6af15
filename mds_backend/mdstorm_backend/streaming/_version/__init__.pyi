"""streaming._version: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.streaming import __version__ as __version__

__all__ = [
]
