"""Looking after datasets where they are stored, over the protocols that storages speak."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mds_backend.small_datasets import plan, to_table
from tests.mds_backend.storage.conftest import Store

from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.format.index import INDEX_NAME, Index
from mdstorm_backend.maintenance.head import head
from mdstorm_backend.maintenance.inspect import inspect
from mdstorm_backend.maintenance.reindex import reindex
from mdstorm_backend.maintenance.verify import verify
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import commit, mark_directory, remove_dataset
from mdstorm_backend.write.shard_writer import ShardWriter

FIELDS = {"number": "long"}


@pytest.fixture(autouse=True)
def default_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))


def write(location: Location) -> Index:
    mark_directory(location)
    schema = plan(FIELDS)
    writer = ShardWriter(
        location, schema, prefix="part-00000-0", shard_size=2_000, compression="zstd"
    )
    for batch in to_table({"number": range(300)}, FIELDS).to_batches():
        writer.write(batch)
    return commit(location, schema, writer.close())


def test_datasets_are_looked_after_where_they_are(store: Store) -> None:
    location, options = store.location, store.storage_options
    index = write(location)
    shards = len(index.shards)
    assert shards > 1
    assert inspect(store.url, storage_options=options, statistics=True).rows == 300
    rows = head(store.url, 2, storage_options=options).rows
    assert [row["number"] for row in rows] == [0, 1]

    before = bytes(location.read(INDEX_NAME))
    location.remove(INDEX_NAME)
    with pytest.raises(DatasetNotFoundError):
        verify(store.url, storage_options=options)
    assert reindex(store.url, storage_options=options).shards == shards
    assert bytes(location.read(INDEX_NAME)) == before

    assert verify(store.url, storage_options=options).is_good
    gone = index.shards[0].zip_data
    assert gone is not None
    location.remove(gone.basename)
    report = verify(store.url, storage_options=options)
    assert [problem.to_json() for problem in report.problems] == [
        {"file": gone.basename, "problem": "is missing"}
    ]
    remove_dataset(location)
