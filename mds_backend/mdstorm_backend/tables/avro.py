"""Read Iceberg's Avro files safely, because pyiceberg's compiled decoder aborts on damaged ones."""

from __future__ import annotations

import importlib
import io
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

#: Maximum size of an uncompressed block, which may be a thousand times its compressed size.
_MOST_BLOCK = 256 << 20


@dataclass(frozen=True)
class CheckedInput:
    """An object like pyiceberg's ``InputFile`` whose Avro content is decoded with checks."""

    location: str
    content: bytes

    def open(self) -> io.BytesIO:
        """Return a stream of the content."""
        return io.BytesIO(self.content)


@cache
def check_avro() -> None:
    """Make pyiceberg decode each `CheckedInput` with checks; other inputs are read as before."""
    manifest: Any = importlib.import_module("pyiceberg.manifest")
    file: Any = importlib.import_module("pyiceberg.avro.file")
    streaming: Any = importlib.import_module("pyiceberg.avro.decoder").StreamingBinaryDecoder

    class Decoder(streaming):  # type: ignore[misc]
        def skip(self, n: int) -> None:
            self.read(n)  # for a negative number, a seek would go backwards, and could loop forever

    class AvroFile(file.AvroFile):  # type: ignore[misc]
        def __class_getitem__(cls, _: Any) -> Any:
            return cls

        def __enter__(self) -> Any:
            if not isinstance(self.input_file, CheckedInput):
                return super().__enter__()
            self.decoder = Decoder(self.input_file.content)
            self.header = self._read_header()
            self.schema = self.header.get_schema()
            wanted = self.read_schema or self.schema
            self.reader = file.resolve_reader(self.schema, wanted, self.read_types, self.read_enums)
            return self

        def _read_block(self) -> int:
            if not isinstance(self.input_file, CheckedInput):
                return int(super()._read_block())
            if self.decoder.tell() == len(self.input_file.content):
                raise EOFError("the last block was read")
            try:
                count = int(self.decoder.read_int())
                content = self.decoder.read_bytes()
                sync = self.decoder.read(len(self.header.sync))
            except (EOFError, OverflowError) as error:  # to pyiceberg, EOFError is the normal end
                raise ValueError("an Avro file is cut off") from error
            if sync != self.header.sync:
                raise ValueError("a block in an Avro file does not end with the file's marker")
            content = _decompressed(content, self.header.compression_codec())
            if not 0 < count <= len(content):
                raise ValueError(f"a block of {len(content)} bytes claims to have {count} records")
            self.block = file.Block(self.reader, count, Decoder(content))
            return count

    manifest.AvroFile = AvroFile


def _decompressed(content: bytes, codec: Any) -> bytes:
    if codec is None:
        return content
    if codec.__name__ != "DeflateCodec":
        return bytes(codec.decompress(content))
    found = zlib.decompressobj(-15).decompress(content, _MOST_BLOCK + 1)
    if len(found) > _MOST_BLOCK:
        raise ValueError(f"a block in an Avro file has more than {_MOST_BLOCK} bytes")
    return found
