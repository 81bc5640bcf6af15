"""The folder of docs/how-to/columns.md whose files differ is read wherever its columns agree."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.edge.pages.page_programs import column, some, text_of

from mdstorm.errors import UnsupportedTableError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two days of the page, the second of which has a column more."""
    names: dict[str, Any] = {}
    exec(text_of("how-to/columns.md", slice(-1, None), tmp_path), names)
    found: Path = names["folder"]
    assert found.is_relative_to(tmp_path)
    return found


def test_grown_folder_is_read_in_all_passes_and_resumes_on_two_ranks(folder: Path) -> None:
    make = make_spark_converter(folder.as_uri()).make_torch_dataloader
    loader = make(1, num_epochs=1, schema_fields=["id", "x"])
    assert len(some(loader, 2)) == 2
    for _ in range(2):
        assert sorted(column(loader)) == [1, 2, 3, 4]
    seen = some(loader, 2)
    state, rest = loader.state_dict(), []
    for rank in range(2):
        share = make(1, num_epochs=1, schema_fields=["id", "x"], cur_shard=rank, shard_count=2)
        share.load_state_dict(state)
        rest += column(share)
    assert sorted(seen + rest) == [1, 2, 3, 4]


def test_day_with_another_type_is_read_without_that_column(folder: Path) -> None:
    pq.write_table(pa.table({"id": [5], "x": ["text"]}), folder / "wednesday.parquet")
    make = make_spark_converter(folder.as_uri()).make_torch_dataloader
    assert sorted(column(make(2, num_epochs=1, schema_fields=["id"]))) == [1, 2, 3, 4, 5]
    with pytest.raises(UnsupportedTableError, match=r"differ in the columns .*'x'"):
        column(make(2, num_epochs=1, schema_fields=["id", "x"]))


def test_all_columns_of_a_grown_folder_raise_error_that_names_the_new_one(folder: Path) -> None:
    with pytest.raises(UnsupportedTableError, match=r"differ in the columns \['new'\]"):
        open_dataset(folder).to_table()
    with pytest.raises(UnsupportedTableError, match=r"differ in the columns \['new'\]"):
        column(make_spark_converter(folder.as_uri()).make_torch_dataloader(2, num_epochs=1))
