"""streaming.base.format.mds.reader: written by scripts/make_streaming_stubs.py."""


__all__ = [
]
