"""`compression_codec`: Petastorm's names, and what they become."""

import logging
from typing import Any

import pytest

from mdstorm._spark.make_converter import mds_compression
from mdstorm.errors import CompressionCodecError


@pytest.mark.parametrize(
    ("codec", "compression"),
    [
        (None, None),
        ("", None),
        ("uncompressed", None),
        ("UNCOMPRESSED", None),
        ("snappy", "snappy"),
        ("Snappy", "snappy"),
        ("gzip", "gz"),
        ("bzip2", "bz2"),
        ("lz4", "zstd:1"),
        ("deflate", "zstd:1"),
    ],
)
def test_codecs_of_petastorm(codec: str | None, compression: str | None) -> None:
    assert mds_compression(codec) == compression


@pytest.mark.parametrize("codec", ["zstd", "none", "lzo", "brotli", "gz", 7, b"gzip"], ids=str)
def test_any_other_codec_is_refused(codec: Any) -> None:
    message = "compression_codec should be None or one of the following values"
    with pytest.raises(CompressionCodecError, match=message) as caught:
        mds_compression(codec)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, ValueError)
    assert "'snappy'" in str(caught.value)
    assert repr(codec) in str(caught.value)


@pytest.mark.parametrize(("codec", "logs"), [("lz4", 1), ("deflate", 1), ("gzip", 0), (None, 0)])
def test_a_codec_without_a_counterpart_is_logged(
    caplog: pytest.LogCaptureFixture, codec: str | None, logs: int
) -> None:
    with caplog.at_level(logging.INFO):
        mds_compression(codec)
    assert [r.levelname for r in caplog.records] == ["INFO"] * logs
