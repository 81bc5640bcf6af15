"""streaming.base.compression: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.files import Brotli as Brotli
from mdstorm_backend.mosaic.files import Bzip2 as Bzip2
from mdstorm_backend.mosaic.files import Compression as Compression
from mdstorm_backend.mosaic.files import Gzip as Gzip
from mdstorm_backend.mosaic.files import Snappy as Snappy
from mdstorm_backend.mosaic.files import Zstandard as Zstandard
from mdstorm_backend.mosaic.files import compress as compress
from mdstorm_backend.mosaic.files import decompress as decompress
from mdstorm_backend.mosaic.files import get_compression_extension as get_compression_extension
from mdstorm_backend.mosaic.files import get_compressions as get_compressions
from mdstorm_backend.mosaic.files import is_compression as is_compression

__all__ = [
    "Brotli",
    "Bzip2",
    "Compression",
    "Gzip",
    "Snappy",
    "Zstandard",
    "compress",
    "decompress",
    "get_compression_extension",
    "get_compressions",
    "is_compression",
]
