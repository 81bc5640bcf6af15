"""Petastorm's compression codecs and the ones that MDS has for them."""

from __future__ import annotations

import logging

from mdstorm.errors import CompressionCodecError

__all__ = ["mds_compression"]

_CODECS = {
    "uncompressed": None,
    "bzip2": "bz2",
    "gzip": "gz",
    "snappy": "snappy",
    # MDS has no counterpart for these; zstd at its fastest level is of their kind.
    "lz4": "zstd:1",
    "deflate": "zstd:1",
}

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


def mds_compression(codec: str | None) -> str | None:
    """Return the MDS compression for a value of ``compression_codec``.

    Raises
    ------
    CompressionCodecError
        If it is none of Petastorm's codecs, in any case of letters.
    """
    name = str(codec or "uncompressed").lower()
    if name not in _CODECS:
        raise CompressionCodecError(
            f"compression_codec should be None or one of the following values: "
            f"{', '.join(map(repr, _CODECS))}; found {codec!r}"
        )
    compression = _CODECS[name]
    if name in ("lz4", "deflate"):
        _logger.info("MDS has no codec %r: shards are compressed with %s", name, compression)
    return compression
