"""What of Petastorm's needs an extra of mdstorm."""

from __future__ import annotations

#: Patterns of code, by the extra.
USES = {
    "images": r"\bCompressedImageCodec\b",
    "spark": (
        r"\b(?:petastorm|mdstorm)\.spark(?:_utils)?\b|\bmaterialize_dataset\b"
        r"|\bmake_spark_converter\b|\bdict_to_spark_row\b"
    ),
    "tf": r"\b(?:petastorm|mdstorm)\.tf_utils\b|\bmake_tf_dataset\b",
    "torch": r"\b(?:petastorm|mdstorm)\.pytorch\b|\bmake_torch_dataloader\b",
}
