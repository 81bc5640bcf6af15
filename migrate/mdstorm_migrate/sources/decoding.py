"""The text, the encoding and the byte order mark of a file."""

from __future__ import annotations

import codecs
import io
import tokenize

from mdstorm_migrate.base.document import SourceError


def decode(data: bytes, encoding: str = "utf-8") -> tuple[str, bytes]:
    """Return the decoded text, and the byte order mark before it.

    Raises
    ------
    SourceError
        If the bytes are not in that encoding, or contain null characters.
    """
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    if b"\0" in data:
        raise SourceError("a binary file: it contains null bytes")
    try:
        text = data[len(mark) :].decode(encoding)
        # Raises an error if the codec lacks this error handler, which `Outcome.texts` uses.
        b" ".decode(encoding, "surrogateescape")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SourceError(f"not valid {encoding}: byte {data[error.start]:#04x}", line) from None
    except (LookupError, ValueError) as error:  # codecs such as rot13 and idna
        raise SourceError(f"cannot be decoded as {encoding}: {error}") from None
    if _encoded(text, encoding) != data[len(mark) :]:
        raise SourceError(f"decoding and encoding it as {encoding} changes its bytes")
    return text, mark


def _encoded(text: str, encoding: str) -> bytes | None:
    """Return the bytes of a string, or None if the encoding cannot represent the string."""
    try:
        return text.encode(encoding)
    except ValueError:
        return None


def decode_python(data: bytes) -> tuple[str, bytes, str]:
    """Return the text of a Python file, its byte order mark and its encoding, following PEP 263.

    Raises
    ------
    SourceError
        If the encoding is unknown, or the bytes are not in it.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        decode(data)  # without a declaration, the file has to be UTF-8
        raise SourceError(str(error.msg)) from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    return (*decode(data, encoding), encoding)


def is_wide(data: bytes) -> bool:
    """Whether a file is UTF-16 with a byte order mark, which PowerShell uses for text files."""
    return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def decode_text(data: bytes) -> tuple[str, bytes, str]:
    """Return a file's text, byte order mark and encoding: UTF-8, or UTF-16 with a byte order mark.

    Raises
    ------
    SourceError
        If the bytes are not in that encoding.
    """
    if not is_wide(data):
        return (*decode(data), "utf-8")
    encoding = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    try:
        return data[2:].decode(encoding), data[:2], encoding
    except UnicodeDecodeError as error:
        raise SourceError(f"not valid {encoding}: {error.reason}") from None
