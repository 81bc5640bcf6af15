"""The version of docs/delta.md is that of the reader or converter however it is used."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.edge.pages.page_programs import column, some, text_of

from mdstorm.spark import make_spark_converter

ROWS = 40


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    pytest.importorskip("deltalake")
    names: dict[str, Any] = {"url": f"file://{tmp_path}/orders"}
    exec(text_of("delta.md", slice(1), tmp_path), names)
    names["write_deltalake"](names["url"], pa.table({"id": range(ROWS)}), mode="overwrite")
    return names


def append(page: Any) -> None:
    more = pa.table({"id": range(ROWS, ROWS + 10)})
    page["write_deltalake"](page["url"], more, mode="append")


def test_reader_keeps_its_version_in_all_epochs_and_the_next_one_has_the_newest(page: Any) -> None:
    make = page["make_batch_reader"]
    with make(page["url"], num_epochs=2) as reader:
        first = next(reader).id.tolist()
        append(page)
        assert sorted(first + [row for batch in reader for row in batch.id]) == sorted(
            [*range(ROWS)] * 2
        )
        version = reader.dataset.table_version
    for options, rows in (({}, ROWS + 10), ({"version": version}, ROWS)):
        with make(page["url"], num_epochs=1, **options) as reader:
            assert sorted(row for batch in reader for row in batch.id) == [*range(rows)]


def test_converter_keeps_its_version_in_loops_and_other_processes(page: Any) -> None:
    converter = make_spark_converter(page["url"])
    loader = converter.make_torch_dataloader(8, num_epochs=1)
    peeked = some(loader, 1)
    append(page)
    first = column(loader)
    assert first[: len(peeked)] == peeked
    unpickled = pickle.loads(pickle.dumps(converter))  # noqa: S301
    another = unpickled.make_torch_dataloader(8, num_epochs=1)
    for rows in (first, column(loader), column(another)):
        assert sorted(rows) == [*range(ROWS)]
    newest = make_spark_converter(page["url"]).make_torch_dataloader(8, num_epochs=1)
    assert sorted(column(newest)) == [*range(ROWS + 10)]


def test_state_resumes_in_its_version_after_rows_were_appended(page: Any) -> None:
    converter = make_spark_converter(page["url"])
    loader = converter.make_torch_dataloader(8, num_epochs=1)
    seen, state = some(loader, 2), loader.state_dict()
    append(page)
    with pytest.raises(ValueError, match="version"):
        make_spark_converter(page["url"]).make_torch_dataloader(8, num_epochs=1).load_state_dict(
            state
        )
    same = make_spark_converter(page["url"], version=2).make_torch_dataloader(8, num_epochs=1)
    same.load_state_dict(state)
    assert sorted(seen + column(same)) == [*range(ROWS)]
