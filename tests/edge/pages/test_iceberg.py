"""The snapshot of docs/iceberg.md is that of the reader or converter however it is used."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, some, text_of
from tests.kit.frameworks import import_framework

from mdstorm.spark import make_spark_converter


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    import_framework("tests.kit.iceberg_tables")  # skips if pyiceberg cannot write tables
    names: dict[str, Any] = {}
    exec(text_of("iceberg.md", slice(1), tmp_path), names)
    return names


def test_reader_and_converter_keep_the_snapshot_that_they_opened(page: Any) -> None:
    table, make = page["table"], page["make_batch_reader"]
    snapshot = table.current_snapshot().snapshot_id
    loader = make_spark_converter(table.metadata_location).make_torch_dataloader(2, num_epochs=1)
    peeked = some(loader, 1)
    with make(table, num_epochs=2) as reader:
        rows = next(reader).id.tolist()
        table.append(pa.table({"id": [4, 5]}))
        rows += [row for batch in reader for row in batch.id]
    assert sorted(rows) == [1, 1, 2, 2, 3, 3]
    assert column(loader)[:2] == peeked
    assert sorted(column(loader)) == [1, 2, 3]
    for options, expected in (({}, [1, 2, 3, 4, 5]), ({"version": snapshot}, [1, 2, 3])):
        with make(table, num_epochs=1, **options) as reader:
            assert sorted(row for batch in reader for row in batch.id) == expected
