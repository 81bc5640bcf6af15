"""streaming.base.hashing: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.files import get_hash as get_hash
from mdstorm_backend.mosaic.files import get_hashes as get_hashes
from mdstorm_backend.mosaic.files import is_hash as is_hash

__all__ = [
    "get_hash",
    "get_hashes",
    "is_hash",
]
