"""Random damage to bytes and JSON values."""

import copy
import json
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

#: Boundary values for number types and sizes.
_WORDS = (0, 1, 2, 3, 8, 255, 256, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)
_NUMBERS = (-1, 0, 1, 2, 7, 2**31, 2**32, 2**63, 2**64, 10**30, 1.5, float("nan"), float("inf"))
_ENCODINGS = (
    *("int8", "uint8", "int64", "float64", "int", "str", "bytes", "json", "pkl", "jpeg", "later"),
    *("str_int", "str_float", "str_decimal", "ndarray", "ndarray:int8", "ndarray:float64:3"),
    *("ndarray:ndarray:int8", "ndarray:int8:2,3", "mixed:", "mixed:a and b"),
    *("ndarray:int8:0", "ndarray:int8:99999999999", "list[png]", "jpeg_array", "pil", "png"),
)
_TEXTS = ("", "a", "../x", "/etc/passwd", "x" * 300, "\ud800", "\0", "zstd", "gz:9", "mds", "sha1")
_TYPES = (
    *("long", "string", "binary", "date", "boolean", "decimal(10,2)", "decimal(99,1)", "no type"),
    {"type": "array", "elementType": "long", "containsNull": True},
    {"type": "struct", "fields": [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]},
    {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
)
_VALUES = (None, True, False, *_NUMBERS, *_ENCODINGS, *_TEXTS, *_TYPES, [], {}, [[]], [1], ["a"])


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """Change bytes, numbers and pieces of `data`, and often its length."""
    damaged = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        kind, length = random.randrange(8), len(damaged)
        place = random.randrange(length + 1)
        if kind == 0:
            damaged[place : place + 1] = bytes([random.randrange(256)])
        elif kind == 1 and place < length:
            damaged[place] ^= 1 << random.randrange(8)
        elif kind in (2, 3):
            # Replace a number: an offset at the start of a shard (kind 2), or any number (kind 3).
            start = 4 * random.randrange(min(length // 4 + 1, 20)) if kind == 2 else place
            near = max(0, length + random.choice((-4, -1, 0, 1)))
            word = random.choice((*_WORDS, near, random.randrange(length + 1)))
            damaged[start : start + 4] = struct.pack("<I", word)
        elif kind == 4:
            del damaged[place : place + random.randrange(1, 20)]
        elif kind == 5:
            damaged[place:place] = bytes(random.randrange(256) for _ in range(random.randrange(9)))
        elif kind == 6:
            other, size = random.randrange(length + 1), random.randrange(1, 30)
            damaged[place : place + size] = damaged[other : other + size]
        elif random.random() < 0.3:
            del damaged[place:]
    return bytes(damaged)


def damaged_json(value: Any, random: Random) -> Any:
    """Remove, repeat, change or replace some entries in a JSON value."""
    damaged = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        paths = [path for path in _paths(damaged) if path]
        if not paths:
            break
        *rest, key = random.choice(paths)
        parent = _at(damaged, rest)
        kind = random.randrange(6)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, list):
            parent.append(parent[key])
        elif kind == 2 and isinstance(parent[key], int):
            parent[key] += random.choice((-8, -2, -1, 1, 2, 8, 100))
        elif kind == 3:
            parent[key] = copy.deepcopy(_at(damaged, random.choice(paths)))
        else:
            parent[key] = copy.deepcopy(random.choice(_VALUES))
    return damaged


def header_of(shard: bytes) -> dict[str, Any]:
    """The JSON in the header of an undamaged shard."""
    samples, start = struct.unpack_from("<II", shard)
    value: dict[str, Any] = json.loads(shard[4 * (samples + 2) : start])
    return value


def with_header(shard: bytes, header: object) -> bytes:
    """Replace the header of an undamaged shard, and move its samples accordingly."""
    samples, start = struct.unpack_from("<II", shard)
    offsets = struct.unpack_from(f"<{samples + 1}I", shard, 4)
    text = json.dumps(header).encode()
    move = 4 * (samples + 2) + len(text) - start
    words = struct.pack(f"<{samples + 2}I", samples, *(offset + move for offset in offsets))
    return words + text + shard[start:]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _paths(item, (*path, i))


def _at(value: Any, path: Any) -> Any:
    for key in path:
        value = value[key]
    return value
