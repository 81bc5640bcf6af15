"""What of Petastorm's needs an extra of mdstorm."""

from __future__ import annotations

#: Before the name of a module that is imported from the package itself: ``from petastorm import``.
_FROM = r"\bfrom[ \t]+(?:petastorm|mdstorm)[ \t]+import(?:[ \t]*\([^)]*?|(?:[^\n\\(#;]|\\\r?\n)*?)"
#: Patterns of code, by the extra.
USES = {
    "images": r"\bCompressedImageCodec\b",
    "spark": (
        rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)spark(?:_utils)?\b|\bmaterialize_dataset\b"
        r"|\bmake_spark_converter\b|\bdict_to_spark_row\b"
    ),
    "tf": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)tf_utils\b|\bmake_tf_dataset\b",
    "torch": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)pytorch\b|\bmake_torch_dataloader\b",
}
