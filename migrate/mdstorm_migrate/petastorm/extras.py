"""What of Petastorm's needs an extra of mdstorm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

#: Before the name of a module that is imported from the package itself: ``from petastorm import``.
_FROM = r"\bfrom[ \t]+(?:petastorm|mdstorm)[ \t]+import(?:[ \t]*\([^)]*?|(?:[^\n\\(#;]|\\\r?\n)*?)"
_USES = {
    "images": r"\bCompressedImageCodec\b",
    "spark": (
        rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)spark(?:_utils)?\b|\bmaterialize_dataset\b"
        r"|\bmake_spark_converter\b|\bdict_to_spark_row\b"
    ),
    "tf": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)tf_utils\b|\bmake_tf_dataset\b",
    "torch": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)pytorch\b|\bmake_torch_dataloader\b",
}
#: The distribution that each of these extras brings in.
LIBRARIES = {
    "images": "pillow",
    "spark": "pyspark",
    "tf": "tensorflow",
    "torch": "torch",
}
_COMMENT = re.compile(rb"^[ \t]*#[^\r\n]*", re.MULTILINE)


def extras_used(code: bytes) -> Iterator[str]:
    """Yield the extras that code needs, whose comments do not count."""
    code = _COMMENT.sub(b"", code)
    for extra in _USES:
        if _pattern(extra).search(code):
            yield extra


@cache
def _pattern(extra: str) -> re.Pattern[bytes]:
    return re.compile(_USES[extra].encode())
