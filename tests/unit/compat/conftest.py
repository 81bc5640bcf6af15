"""Fixtures: small Parquet files, and cleanup of readers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.readers import stop_readers, write_parquet


@pytest.fixture
def ten(tmp_path: Path) -> str:
    """The numbers 0 to 9 in row groups of four."""
    return write_parquet(tmp_path / "ten", {"number": range(10)})


@pytest.fixture(scope="session")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The numbers 0 to 29 in row groups of seven."""
    return write_parquet(tmp_path_factory.mktemp("thirty"), {"id": range(30)}, 7)


@pytest.fixture
def thousand(tmp_path: Path) -> str:
    """The numbers 0 to 999 in row groups of a hundred."""
    return write_parquet(tmp_path / "thousand", {"number": range(1000)}, 100)


@pytest.fixture(autouse=True)
def _stop_readers_after_each_test() -> Iterator[None]:
    yield
    stop_readers()


@pytest.fixture
def mlflow_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of MLflow's active run, which is in a local directory."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow prefers databases
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as active:
        yield active.info.run_id
    mlflow.set_tracking_uri(before)
