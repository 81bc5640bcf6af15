from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from petastorm.reader import Reader
    from petastorm.spark import SparkDatasetConverter


def rows(converter: SparkDatasetConverter, reader: "Reader") -> int:
    return len(converter)
