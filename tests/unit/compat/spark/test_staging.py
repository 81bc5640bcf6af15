"""Staging: if executors cannot write MDS, Spark writes Parquet and the driver converts it."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from tests.conftest import IS_CONNECT, of_values, runs_python_on_executors
from tests.kit import refusing
from tests.unit.compat.spark.converters import ids

from mdstorm import errors
from mdstorm._spark import copies
from mdstorm._spark.copies import (
    DIRECTORY_CONF,
    DIRECTORY_VARIABLE,
    STAGING_CONF,
    STAGING_VARIABLE,
    staging_dir,
)
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import open_dataset
from mdstorm_backend.convert import compare
from mdstorm_backend.convert.staged_parquet import materialize_staged
from mdstorm_backend.storage import Location

#: One column of each type, with nulls, old dates, and names that Parquet writers reject.
COLUMNS = (
    "id",
    "id * 0.1D AS double",
    "CAST(id / 3 AS float) AS `sing.le`",
    "IF(id % 3 = 0, NULL, id) AS nullable",
    "CAST(id AS tinyint) AS byte",
    "CAST(id AS decimal(20, 3)) AS decimal",
    "id % 2 = 0 AS boolean",
    "IF(id = 2, NULL, 'a') AS text",
    "'b' AS TEXT",
    "CAST('x' AS binary) AS `binary`",
    "date'1500-01-01' + CAST(id AS int) AS date",
    "timestamp'0001-01-03 00:00:00.000001' AS instant",
    "timestamp_ntz'2024-02-29 01:02:03' AS clock",
    "interval '1 02:03:04.5' day to second AS `interval`",
    "IF(id = 1, NULL, array(id, NULL)) AS list",
    "array(1.5D, id) AS pair",
    "array(true, NULL) AS booleans",
    "array(date'2020-01-01') AS dates",
    "array('a', NULL) AS texts",
    "named_struct('a', id, 'b', array(0.1D)) AS struct",
    "map('k', timestamp'1800-01-01 00:00:00') AS map",
)


class _DriverOnly(LocalFileSystem):
    """A file system for this process only, because executors do not support its protocol."""

    protocol = "driveronly"

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("driveronly://")))


@pytest.fixture
def driver_only() -> Iterator[str]:
    """Protocol of a store that executors cannot access."""
    fsspec.register_implementation("driveronly", _DriverOnly, clobber=True)
    yield "driveronly"
    sys.modules["fsspec.registry"]._registry.pop("driveronly")  # type: ignore[attr-defined]


def shards(converter: SparkDatasetConverter) -> list[bytes]:
    return [Path(url.removeprefix("file://")).read_bytes() for url in converter.file_urls]


@runs_python_on_executors
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.long), None]
)
def test_staged_copy_equals_copy_written_by_executors(
    spark: Any, cache_dir: Path, dtype: str | None
) -> None:
    df = spark.range(0, 9, 1, 2).selectExpr(*COLUMNS)
    options = {"dtype": dtype, "compression_codec": "gzip" if dtype is None else None}
    direct = make_spark_converter(df, staging=False, **options)
    other = f"file://{cache_dir}/other"
    staged = make_spark_converter(df, staging=True, parent_cache_dir_url=other, **options)
    assert shards(direct) == shards(staged)
    first, second = (open_dataset(c.cache_dir_url) for c in (direct, staged))
    assert first.schema == second.schema
    assert compare(first, second).is_same


def test_staged_ml_vectors_become_arrays(classic_spark: Any, cache_dir: Path) -> None:
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import StructType

    rows = [(Vectors.dense([1.0, 2.0]),), (Vectors.sparse(2, {1: 5.0}),), (None,)]
    df = classic_spark.createDataFrame(rows, StructType().add("v", VectorUDT())).coalesce(1)
    converter = make_spark_converter(df, staging=True)
    assert ids(converter) == [[1.0, 2.0], [0.0, 5.0], None]
    assert open_dataset(converter.cache_dir_url).schema["v"].encoding == "ndarray:float32"


def test_copy_to_storage_not_writable_by_executors_is_staged(
    spark: Any, tmp_path: Path, driver_only: str, caplog: pytest.LogCaptureFixture
) -> None:
    staging = tmp_path / "staging"
    with caplog.at_level(logging.WARNING, "mdstorm"):
        converter = make_spark_converter(
            spark.range(0, 10, 1, 2),
            parent_cache_dir_url=f"{driver_only}://{tmp_path}/cache",
            staging_dir_url=f"file://{staging}",
            keep=True,
        )
    assert "Spark's executors cannot write to driveronly://" in caplog.text
    assert converter.cache_dir_url.startswith(f"{driver_only}://{tmp_path}/cache/")
    assert ids(converter) == list(range(10))
    assert list(staging.iterdir()) == []
    converter.delete()
    assert list((tmp_path / "cache").iterdir()) == []


def test_copy_in_session_without_python_on_executors_is_staged(
    spark: Any, cache_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(STAGING_VARIABLE, "auto")
    with refusing.without_python_on_executors(connect=IS_CONNECT), caplog.at_level("WARNING"):
        converter = make_spark_converter(spark.range(0, 10, 1, 2), dtype=None)
    (record,) = caplog.records
    assert "(AnalysisException: [NOT_SUPPORTED_WITH_SERVERLESS] " in record.getMessage()
    assert f"{STAGING_VARIABLE}=true" in record.getMessage()
    assert ids(converter) == list(range(10))


@pytest.mark.long
@runs_python_on_executors
def test_workers_without_mdstorm_raise_error_unless_staging_is_set(
    classic_spark: Any, tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "absent" / "mdstorm_backend"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('no mdstorm here')\n")
    environment = classic_spark.sparkContext.environment
    monkeypatch.setitem(environment, "PYTHONPATH", str(package.parent))
    monkeypatch.setenv(STAGING_VARIABLE, "auto")
    df = classic_spark.range(0, 10, 1, 2)
    with pytest.raises(
        errors.MissingDependencyError, match=r"Install it on the work.*pass staging=True"
    ):
        make_spark_converter(df)
    assert ids(make_spark_converter(df, staging=True)) == list(range(10))


@pytest.mark.parametrize("staging", [True, None])
def test_driver_without_credentials_raises_credentials_error(
    spark: Any, driver_only: str, monkeypatch: pytest.MonkeyPatch, staging: bool | None
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError("no credentials")

    monkeypatch.setattr(_DriverOnly, "pipe_file", refuse)
    df = spark.range(3)
    monkeypatch.setattr(type(df), "mapInArrow", None)  # ensures that no job runs
    with pytest.raises(
        errors.CredentialsError, match=f"{driver_only}: needs different cred"
    ) as caught:
        make_spark_converter(df, parent_cache_dir_url=f"{driver_only}:///x", staging=staging)
    assert caught.value.__cause__ is None


def test_failed_staging_leaves_no_files(spark: Any, cache_dir: Path, set_conf: Any) -> None:
    with pytest.raises(errors.UnsupportedTypeError, match="'x': type void"):
        make_spark_converter(spark.sql("SELECT NULL AS x"), staging=True)
    assert not cache_dir.exists()
    df = spark.range(3).selectExpr("CAST(raise_error('broken on purpose') AS int) AS x")
    with pytest.raises(Exception, match="broken on purpose"):
        make_spark_converter(df, staging=True)
    assert [path for path in cache_dir.rglob("*") if not path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("staging", "reason"),
    [("driveronly:///x", "No FileSystem for scheme"), ("file:///proc/x", "Mkdirs failed")],
)
def test_unwritable_staging_dir_raises_error_of_spark_and_logs_remedy(
    spark: Any,
    tmp_path: Path,
    driver_only: str,
    staging: str,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(Exception, match=reason):
        materialize_staged(spark.range(3), f"{tmp_path}/mds", staging)
    assert f"could not write Parquet to {staging}/_mdstorm_staging_" in caplog.text
    assert "Choose another directory as staging_dir_url" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def own_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate executors that write most files to disks that this machine cannot see."""
    from mdstorm_backend.convert import staged_parquet

    write = staged_parquet.write_parquet

    def written(writer: Any, directory: Location) -> None:
        write(writer, directory)
        for name in directory.list_names():
            if "part-" in name and "part-00000" not in name:
                directory.remove(name)

    monkeypatch.setattr(staged_parquet, "write_parquet", written)
    monkeypatch.setattr(staged_parquet.sessions, "is_local", lambda session: False)


@pytest.mark.long
@of_values
def test_staging_on_separate_executor_disks_raises_write_error(
    spark: Any, tmp_path: Path, own_disks: None
) -> None:
    with pytest.raises(errors.WriteError, match="this process sees 1") as caught:
        materialize_staged(spark.range(10), f"{tmp_path}/mds", f"file://{tmp_path}/staging")
    assert "executors write to their own disks: of 64 rows" in str(caught.value)
    assert not (tmp_path / "mds").exists()
    assert list((tmp_path / "staging").glob("_mdstorm_*")) == []


def test_staging_restores_session_settings(spark: Any, tmp_path: Path, set_conf: Any) -> None:
    key, other = (
        f"spark.sql.parquet.{name}" for name in ("outputTimestampType", "datetimeRebaseModeInWrite")
    )
    set_conf(key, "TIMESTAMP_MILLIS")
    before = spark.conf.get(other, None)
    df = spark.sql("SELECT timestamp'1700-01-01 00:00:00.000001' AS t")
    dataset = materialize_staged(df, f"{tmp_path}/mds", f"file://{tmp_path}/staging")
    assert dataset.to_table().column("t").to_pylist()[0].microsecond == 1
    assert (spark.conf.get(key), spark.conf.get(other, None)) == ("TIMESTAMP_MILLIS", before)


def test_staging_settings_have_documented_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    for argument, conf, variable, expected in (
        (True, "false", "false", True),
        (False, "true", "true", False),
        (None, "true", "false", True),
        (None, "FALSE", "true", False),
        (None, "", "True", True),
        (None, "", "", False),
    ):
        monkeypatch.setenv(STAGING_VARIABLE, variable)
        settings = {"spark.master": "local[2]", STAGING_CONF: conf}
        session: Any = SimpleNamespace(conf=settings)  # a stand-in
        found = staging_dir(session, "file:///cache", argument, None)
        assert found == ("file:///cache" if expected else None)


def test_staging_dir_settings_have_documented_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(conf={DIRECTORY_CONF: "dbfs:/conf"})
    monkeypatch.setenv(DIRECTORY_VARIABLE, "/Volumes/a/b/c")
    assert staging_dir(session, "file:///cache", True, "s3://x/y/") == "s3://x/y"
    assert staging_dir(session, "file:///cache", True, None) == "file:///dbfs/conf"
    session.conf.clear()
    assert staging_dir(session, "file:///cache", True, None) == "file:///Volumes/a/b/c"
    with pytest.raises(errors.UnsupportedURLError, match="scheme-less staging directory"):
        staging_dir(session, "file:///cache", True, "/tmp/x")
    monkeypatch.setenv(STAGING_VARIABLE, "perhaps")
    with pytest.raises(errors.InvalidArgumentError, match="'perhaps': set it to one of true"):
        staging_dir(session, "file:///cache", None, None)


def test_write_access_is_tested_once_per_application_and_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tested: list[str] = []

    def writable(session: Any, location: Location) -> str:
        tested.append(f"{session.conf['spark.app.id']} {location.url}")
        return ""

    monkeypatch.setattr(copies, "why_not_writable", writable)
    monkeypatch.setattr(copies, "_writable", set())
    for application, parent in (("a", "s3://x"), ("a", "s3://x"), ("b", "s3://x"), ("a", "s3://y")):
        session: Any = SimpleNamespace(conf={"spark.app.id": application})
        assert staging_dir(session, f"{parent}/d", None, None) is None
    assert tested == ["a s3://x/d", "b s3://x/d", "a s3://y/d"]
