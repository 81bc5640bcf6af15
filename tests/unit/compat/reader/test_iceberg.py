"""Readers, converters and conversions return an Iceberg table's live rows."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.kit.frameworks import import_framework

tables = import_framework("tests.kit.iceberg_tables")

from pyiceberg.table import Table  # noqa: E402
from pyiceberg.transforms import IdentityTransform  # noqa: E402

from mdstorm import convert, make_batch_reader  # noqa: E402
from mdstorm.cli import main  # noqa: E402
from mdstorm.errors import UnsupportedTableError  # noqa: E402
from mdstorm.spark import make_spark_converter  # noqa: E402
from mdstorm_backend.catalogs import given_table  # noqa: E402


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Rows 0 to 5, partitioned by parity; rows 2 and 3 are deleted."""
    table = tables.catalog(tmp_path).create_table(
        "n.t", pa.schema([("n", pa.int64()), ("odd", pa.bool_())])
    )
    with table.update_spec() as spec:
        spec.add_field("odd", IdentityTransform())
    table.append(pa.table({"n": range(6), "odd": [False, True] * 3}))
    files = {partition[0]: path for path, (_, partition) in tables.live_files(table).items()}
    for odd, path in files.items():
        dead = tables.positions(table, {path: [1]}, tables.Record(odd))
        tables.commit(table, dead)
    return table


def numbers(url: str, **options: object) -> list[int]:
    with make_batch_reader(url, num_epochs=1, **options) as reader:
        return sorted(n for batch in reader for n in batch.n.tolist())


def test_reader_with_snapshot_returns_its_rows(table: Table) -> None:
    url, first = table.location(), table.snapshots()[0].snapshot_id
    assert numbers(url) == [0, 1, 4, 5]
    assert numbers(url, version=first) == list(range(6))
    assert numbers(url, filters=[("odd", "=", True)]) == [1, 5]
    with make_batch_reader(url, version=first) as reader:
        assert reader.diagnostics["table_version"] == first


def test_every_entry_point_reads_a_branch_from_metadata_file_url(
    table: Table, tmp_path: Path
) -> None:
    first = table.snapshots()[0].snapshot_id
    with table.manage_snapshots() as manage:
        manage.create_branch(first, "audit")
    url = table.metadata_location
    assert numbers(url) == [0, 1, 4, 5]
    assert numbers(url, version="audit") == numbers(table.location(), version="audit")
    converter = pickle.loads(pickle.dumps(make_spark_converter(url, version="audit")))  # noqa: S301
    assert (len(converter), converter.file_urls) == (6, [url])
    with converter.make_torch_dataloader(batch_size=6, num_epochs=1) as loader:
        (batch,) = loader
    assert sorted(batch["n"].tolist()) == list(range(6))
    given = ["--version", "audit", url, str(tmp_path / "mds")]
    result = CliRunner().invoke(main, ["convert", *given])
    assert "6 rows" in result.stdout
    assert "mdstorm verify --version audit --against" in result.stdout
    verified = ["verify", "--version", "audit", "--against", *given[2:]]
    assert CliRunner().invoke(main, verified).exit_code == 0
    with pytest.raises(UnsupportedTableError, match="is a Delta or Iceberg table"):
        convert(url, str(tmp_path / "by-spark"), spark=object())  # type: ignore[arg-type]


def test_pyiceberg_table_is_read_at_its_current_snapshot(table: Table, tmp_path: Path) -> None:
    given: Any = table
    assert numbers(given) == [0, 1, 4, 5]
    assert numbers(given, version=table.snapshots()[0].snapshot_id) == list(range(6))
    assert len(convert(given, str(tmp_path / "mds"))) == 4
    converter = make_spark_converter(given)
    assert converter.file_urls == [table.metadata_location]
    table.append(pa.table({"n": [9], "odd": [True]}))
    assert len(pickle.loads(pickle.dumps(converter))) == 4  # noqa: S301
    with converter.make_torch_dataloader(batch_size=6, num_epochs=1) as loader:
        assert sorted(n for batch in loader for n in batch["n"].tolist()) == [0, 1, 4, 5]
    assert numbers(given) == [0, 1, 4, 5, 9]


def test_pyiceberg_table_credentials_become_storage_options(table: Table) -> None:
    table.io.properties.update(
        {
            "s3.access-key-id": "key",
            "s3.secret-access-key": "hidden",
            "s3.session-token": "token",
            "s3.endpoint": "http://localhost:1",
            "client.region": "eu-west-1",
        }
    )
    url, options, version = given_table(table, {"token": "other"})
    assert (url, options, version) == (
        table.metadata_location,
        {
            "key": "key",
            "secret": "hidden",
            "token": "other",
            "endpoint_url": "http://localhost:1",
            "client_kwargs": {"region_name": "eu-west-1"},
        },
        None,
    )
    assert given_table("s3://bucket/t", None) == ("s3://bucket/t", None, None)
