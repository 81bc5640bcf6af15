"""The `check_setup` round trip covers all types and nulls, and leaves no files."""

import os
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import of_values
from tests.edge.doctor.setups import Setup
from tests.kit.frameworks import import_framework

from mdstorm.doctor import Finding, Report, check_setup
from mdstorm.doctor._round_trip import ROWS, judged, row_of


@of_values
@pytest.mark.parametrize("library", ["torch", "tensorflow"])
def test_round_trip_returns_all_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    import_framework(library)
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "shards"))
    if library != "torch":
        version = metadata.version

        def version_without_torch(name: str) -> str:
            if name == "torch":
                raise metadata.PackageNotFoundError(name)
            return version(name)

        monkeypatch.setattr(metadata, "version", version_without_torch)
    report = check_setup(f"file://{tmp_path}/a/b", spark=spark)
    assert report.problems == ()
    trip = [one.found for one in report.findings if one.check == "round-trip"]
    assert f"Spark wrote {ROWS} rows" in trip[0]
    assert trip[1] == f"{library} on cpu: all {ROWS} rows, each once, with the right values"
    assert trip[2] == "the copy is deleted"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_rank_of_distributed_job_skips_round_trip(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.set(RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=2, MASTER_ADDR="localhost")
    *_, last = setup.doctor("--cache-dir", f"file://{tmp_path}/cache")
    assert (last["check"], last["found"]) == ("round-trip", "not made in a job with several ranks")


@pytest.mark.long
def test_round_trip_after_ctrl_c_leaves_no_files(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    started, cache = tmp_path / "started", tmp_path / "cache"
    os.mkfifo(started)
    # Spark starts workers with -m. They write to a FIFO, which "<>" opens even without a reader.
    tell = f'[ "$1" != -m ] || echo started 1<> {started}'
    worker = setup.program("slow", tell, f'exec {sys.executable} -S "$@"')
    setup.set(PYSPARK_PYTHON=worker)
    process = setup.start("--cache-dir", f"file://{cache}")
    assert started.read_text() == "started\n"
    assert list(cache.glob("*/*"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert not cache.exists()


@pytest.mark.long
def test_cache_dir_check_keeps_existing_files_in_directory(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    setup_directory = tmp_path / "setup"
    setup_directory.mkdir()
    found = Setup(setup_directory).doctor("--cache-dir", f"file://{tmp_path}", "--no-round-trip")
    assert [one["status"] for one in found if one["check"] == "cache-dir"] == ["ok"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own", "setup"]


def test_round_trip_counts_lost_repeated_and_wrong_rows() -> None:
    rows = [row_of(number) for number in range(ROWS)]
    assert judged("x", rows).status == "ok"
    found = judged("x", [*rows[5:], rows[9], rows[9][:1] * len(rows[9])])
    assert found.status == "problem"
    assert "5 rows lost, 2 repeated, 1 with wrong values" in found.found
    assert judged("x", [*rows[:3], (3, True, *rows[3][2:]), *rows[4:]]).status == "problem"
    assert judged("x", [*rows[:-1], rows[0]]).status == "problem"


def test_doctor_report_repr_lists_findings_with_remedies() -> None:
    report = Report((Finding("java", "problem", "there is none", "install it"),))
    assert repr(report).splitlines() == [
        "problem  java  there is none",
        "               → install it",
    ]
    assert report.to_json()["problems"] == 1


@pytest.mark.long
def test_failing_check_does_not_stop_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: 1 // 0)
    report = check_setup()
    assert report.problems[0].check == "python"
    assert "this could not be checked: ZeroDivisionError" in report.problems[0].found
    assert report.findings[-1].check == "cache-dir"
