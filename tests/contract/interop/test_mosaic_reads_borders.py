"""MosaicML Streaming reads values at the borders of sizes, written as samples and as batches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.contract.interop.in_mosaic.describe import describe
from tests.contract.test_borders import by_columns, by_samples, stored
from tests.kit.borders import ENCODINGS, Border, borders, columns_of

from mdstorm_backend.format.encodings.registry import parse_encoding


def without_empty(border: Border) -> Border:
    """Leave out what MosaicML Streaming writes, but does not read: a list of no JPEG files."""
    is_read = border.encoding != "jpeg_array"
    return replace(border, values=[value for value in border.values if is_read or value])


def read_back(border: Border, value: Any) -> Any:
    """Return a value as it is read; images are then of the class of their format."""
    encoding = parse_encoding(border.encoding)
    is_file = encoding.is_image or (isinstance(value, list) and "list" in border.encoding)
    return encoding.decode(encoding.encoder()(value)) if is_file else stored(border, value)


@pytest.mark.parametrize("write", [by_samples, by_columns])
@pytest.mark.parametrize("name", ENCODINGS)
def test_mosaic_reads_values_at_borders(
    run_in_mosaic: Any, name: str, write: Any, tmp_path: Path
) -> None:
    written: dict[Path, Border] = {}
    for number, border in enumerate(map(without_empty, borders(name))):
        if write is by_samples or border.has_columns:
            written[tmp_path / f"{number}"] = border
            write(border, columns_of(border), str(tmp_path / f"{number}"))
    results = run_in_mosaic("read.py", tmp_path / "caches", *written)
    for border, result in zip(written.values(), results, strict=True):
        for column, values in columns_of(border).items():
            found = [sample[column] for sample in result["StreamingDataset"]]
            expected = [describe(read_back(border, value)) for value in values]
            assert found == expected, (border.encoding, column)
