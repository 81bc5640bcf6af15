"""Epochs that outlast their credentials many times over."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.delta_tables import OLD_PROTOCOL, add, commit, field, metadata
from tests.kit.parquet_files import open_parquet
from tests.kit.servers.catalog import Catalog

from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader
from mdstorm_backend.storage import renewing, s3_objects

NAME = "main.sales.events"
FILES, ROWS = 40, 50
#: Ten times as many files as a process requests at once, so that it requests files all epoch long.
MANY, FEW = 640, 4


def put(catalog: Catalog, folder: Path, files: int, rows: int) -> None:
    """Create the table `NAME` with the given number of files, and of rows in each file."""
    rng = np.random.default_rng(1)
    table = folder / "events"
    added = []
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        content = pa.table({"n": ids, "x": [rng.bytes(200) for _ in ids]})
        added.append(add(table, f"{number}.parquet", content))
    commit(table, OLD_PROTOCOL, metadata([field("n", "long"), field("x", "binary")]), *added)
    catalog.put(NAME, table)


@pytest.fixture
def events(catalog: Catalog, tmp_path: Path) -> Catalog:
    put(catalog, tmp_path, FILES, ROWS)
    return catalog


@pytest.mark.long
@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_epoch_lasting_ten_credential_lifetimes_yields_each_row_once(
    method: str | None, catalog: Catalog, tmp_path: Path
) -> None:
    """With or without workers, a process requests credentials at most once per lifetime."""
    put(catalog, tmp_path, MANY, FEW)
    lifetimes, lifetime = 10, 2.0
    catalog.unity.lifetime = lifetime
    catalog.guard.seconds_per_object = lifetimes * lifetime / MANY
    converter = make_spark_converter(NAME)
    with converter.make_torch_dataloader(
        batch_size=20, num_epochs=1, seed=3, shuffling_queue_capacity=20 * FEW
    ) as made:
        more = {"num_workers": 2, "multiprocessing_context": method}
        loader = StreamingDataLoader(made.dataset, batch_size=20, **more) if method else made
        found = [n for batch in loader for n in batch["n"].tolist()]
    assert sorted(found) == list(range(MANY * FEW))
    asked = catalog.unity.by_process
    assert len(asked) <= (3 if method else 1)
    # Credentials are never renewed while more than a quarter of their lifetime remains.
    assert not [b - a for ts in asked.values() for a, b in pairwise(ts) if b - a < 0.74 * lifetime]
    # Near the end, all remaining requests may already be waiting for the store, with valid tokens.
    assert max(map(len, asked.values())) >= lifetimes - 2
    assert sum(map(len, asked.values())) == len(catalog.guard.handed_out)


@pytest.mark.long
def test_requests_in_progress_when_credentials_expire_are_repeated(
    events: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token expires during the downloads, before the time that the catalog stated."""
    guard = events.guard

    def end_token(method: str, path: str) -> None:
        if len(guard.handed_out) == 1 and len(guard.requests) >= 10:
            last = guard.handed_out[0]
            guard.handed_out[0] = type(last)(last.prefix, 0.0, *last.keys().values())

    monkeypatch.setattr(renewing, "opened_filesystems", {})
    monkeypatch.setattr("mdstorm_backend.storage.credentials.LONGEST_YOUTH", 0.0)
    dataset = open_parquet(NAME)
    guard.requests.clear()
    guard.fault = end_token
    assert sorted(dataset.to_table(["n"])["n"].to_pylist()) == list(range(FILES * ROWS))
    assert guard.expired > 0
    assert len(guard.handed_out) == 2
    turns = [s3_objects.turns_of(fs) for fs in renewing.opened_filesystems.values()]
    assert turns
    assert not any(used.refusing for used in turns)  # signed URLs are still used
