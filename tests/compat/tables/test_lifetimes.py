"""An epoch outlives its credentials many times, and secrets leave no process."""

import io
import json
import logging
import pickle
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.compat.tables.conftest import Catalog
from tests.delta_tables import OLD_PROTOCOL, add, commit, field, metadata
from tests.servers.unity import TOKEN
from tests.servers.vending import MARK

from mdstorm import make_batch_reader
from mdstorm.cli import main
from mdstorm.errors import CredentialsError, MDStormError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.storage import renewing, s3_objects

NAME = "main.sales.events"
FILES, ROWS = 40, 50


@pytest.fixture
def events(catalog: Catalog, tmp_path: Path) -> Catalog:
    """A table of files that are downloaded one after the other."""
    rng = np.random.default_rng(1)
    table = tmp_path / "events"
    files = []
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = pa.table({"n": ids, "x": [rng.bytes(200) for _ in ids]})
        files.append(add(table, f"{number}.parquet", rows))
    commit(table, OLD_PROTOCOL, metadata([field("n", "long"), field("x", "binary")]), *files)
    catalog.put(NAME, table)
    return catalog


def slowly(seconds: float, batches: Any) -> Iterator[Any]:
    """Take batches during a time, as a training step would."""
    for batch in batches:
        yield batch
        time.sleep(seconds * 20 / (FILES * ROWS))


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_epoch_of_ten_lifetimes_has_each_row_once(workers: int, events: Catalog) -> None:
    """With shuffles and look-ahead; each process asks about once per lifetime."""
    lifetimes, lifetime = 10, 2.0
    events.unity.lifetime = lifetime
    converter = make_spark_converter(NAME)
    begun = time.time()
    with converter.make_torch_dataloader(
        batch_size=20, num_epochs=1, shuffle_rows=True, seed=3, results_queue_size=2
    ) as made:
        more = {"num_workers": workers, "multiprocessing_context": "spawn"} if workers else {}
        loader = StreamingDataLoader(made.dataset, batch_size=20, **more) if workers else made
        found = [n for batch in slowly(lifetimes * lifetime, loader) for n in batch["n"].tolist()]
    assert sorted(found) == list(range(FILES * ROWS))
    # A quarter of a lifetime before its end, at the earliest, the next one begins.
    most = (time.time() - begun) / (0.75 * lifetime) + 1
    assert events.unity.asked[f"id-of-{NAME}"] <= (1 + workers) * most
    assert events.guard.expired == 0


def test_requests_under_way_when_credentials_expire_are_repeated(
    events: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store ends the token while files are downloaded, whatever the catalog promised."""
    guard = events.guard

    def end_token(method: str, path: str) -> None:
        if len(guard.handed_out) == 1 and len(guard.requests) >= 10:
            last = guard.handed_out[0]
            guard.handed_out[0] = type(last)(last.prefix, 0.0, *last.keys().values())

    monkeypatch.setattr(renewing, "_opened", {})
    monkeypatch.setattr("mdstorm_backend.storage.credentials._LONGEST_YOUTH", 0.0)
    dataset = open_parquet(NAME)
    guard.requests.clear()
    guard.fault = end_token
    assert sorted(dataset.to_table(["n"])["n"].to_pylist()) == list(range(FILES * ROWS))
    assert guard.expired > 0
    assert len(guard.handed_out) == 2
    refusing = [turns.refusing for by in s3_objects._turns.values() for turns in by.values()]
    assert not any(refusing)  # signed URLs are still used


def test_secrets_are_in_no_pickle_state_log_repr_error_or_report(
    events: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("mdstorm", "mdstorm_backend"):
        caplog.set_level(logging.DEBUG, logger=name)
    texts: list[str] = []
    converter = make_spark_converter(NAME)
    with make_batch_reader(NAME, num_epochs=1) as reader:
        next(reader)
        found = [reader, reader.dataset, reader.diagnostics, reader.state_dict()]
        texts += [*map(repr, found), json.dumps(reader.state_dict())]
        texts.append(repr(reader.dataset.source.location.__dict__))
    with converter.make_torch_dataloader(batch_size=20, num_epochs=1) as loader:
        next(iter(loader))
        texts += [repr(loader), repr(loader.state_dict()), repr(loader.dataset)]
        pickles = [pickle.dumps(one) for one in (converter, loader.dataset)]
    pickles.append(pickle.dumps(open_parquet(NAME)))
    texts += [repr(converter), converter._repr_html_(), *map(repr, pickles)]
    dataset = open_parquet(NAME)
    last = events.guard.handed_out[-1]
    events.guard.handed_out[-1] = type(last)(last.prefix, 0.0, *last.keys().values())
    with pytest.raises(CredentialsError) as caught:
        dataset.location.read("0.parquet")
    texts += [str(caught.value), repr(caught.getrepr(style="long"))]
    events.unity.refusal = ("403 Forbidden", "PERMISSION_DENIED", f"no, {TOKEN}")
    with pytest.raises(MDStormError) as caught:
        dataset.location.credentials.fetch()
    texts += [str(caught.value), repr(caught.getrepr(style="long"))]
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        texts.append(CliRunner().invoke(main, ["doctor"]).output)
    texts.append(output.getvalue())
    texts += [record.getMessage() for record in caplog.records if record.name.startswith("mdstorm")]
    assert events.guard.handed_out
    leaks = [text[:200] for text in texts if MARK in text or TOKEN in text]
    assert not leaks
