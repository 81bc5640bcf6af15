"""An independent MDS shard decoder, written from the format description.

It decodes a row at a time and shares no code with the engine. Nulls come from the bitmaps in
the header.
"""

import base64
import itertools
import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

_SCALARS = {
    **{f"{sign}int{bits}": (code.upper() if sign else code) for sign in ("", "u")
       for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))},
    "float16": "e",
    "float32": "f",
    "float64": "d",
}  # fmt: skip


class DecodedShard:
    """The header and rows of a shard file.

    Attributes
    ----------
    header : dict
    The JSON between the offsets and the samples.
    rows : list of dict
        The value of each column, with None for null rows and null array elements.
    """

    def __init__(self, data: bytes) -> None:
        (n,) = struct.unpack_from("<I", data)
        offsets = struct.unpack_from(f"<{n + 1}I", data, 4)
        assert offsets[-1] == len(data)
        self.header: dict[str, Any] = json.loads(data[8 + 4 * n : offsets[0]])
        self.names: list[str] = self.header["column_names"]
        self.encodings: list[str] = self.header["column_encodings"]
        bounds = itertools.pairwise(offsets)
        self.rows = [self._sample(data[start:stop]) for start, stop in bounds]
        self._apply_nulls()

    def _sample(self, sample: bytes) -> dict[str, Any]:
        sizes = self.header["column_sizes"]
        variable = sum(size is None for size in sizes)
        words = iter(struct.unpack_from(f"<{variable}I", sample))
        position, row = 4 * variable, {}
        for name, encoding, size in zip(self.names, self.encodings, sizes, strict=True):
            length = next(words) if size is None else size
            row[name] = _value(encoding, sample[position : position + length])
            position += length
        assert position == len(sample)
        return row

    def _apply_nulls(self) -> None:
        nulls = self.header.get("mdstorm", {}).get("nulls", {"rows": {}, "elements": {}})
        for name, mask in nulls["elements"].items():
            valid = iter(_bits(mask))
            for row in self.rows:
                row[name] = [value if next(valid) else None for value in row[name]]
            assert next(valid, None) is None
        for name, mask in nulls["rows"].items():
            for row, is_valid in zip(self.rows, _bits(mask), strict=True):
                row[name] = row[name] if is_valid else None


def _bits(mask: dict[str, Any]) -> list[bool]:
    data = base64.b64decode(mask["bits"])
    return [bool(data[i // 8] >> i % 8 & 1) for i in range(mask["count"])]


def _value(encoding: str, data: bytes) -> Any:
    if encoding == "bytes":
        return data
    if encoding == "str":
        return data.decode("utf-8")
    if encoding == "json":
        return json.loads(data)
    if encoding == "str_decimal":
        return Decimal(data.decode("ascii"))
    if encoding in _SCALARS:
        (value,) = struct.unpack(f"<{_SCALARS[encoding]}", data)
        return value
    kind, dtype, *shape = encoding.split(":")
    assert kind == "ndarray"
    start = 0
    if shape:
        count = math.prod(int(dimension) for dimension in shape[0].split(","))
    else:
        dimensions, width = data[0] >> 2, data[0] & 3
        assert dimensions == 1
        (count,) = struct.unpack_from("<" + "BHIQ"[width], data, 1)
        start = 1 + (1 << width)
    assert start + count * struct.calcsize(_SCALARS[dtype]) == len(data)
    return list(struct.unpack_from(f"<{count}{_SCALARS[dtype]}", data, start))


def decode_files(directory: Path) -> list[DecodedShard]:
    """Decode all uncompressed shards in a directory, in order of name."""
    return [DecodedShard(file.read_bytes()) for file in sorted(directory.glob("*.mds"))]
