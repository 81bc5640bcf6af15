"""The `check_setup` round trip covers all types and nulls, and leaves no files."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.doctor.setups import Setup
from tests.conftest import of_values

from mdstorm.doctor import Finding, Report, check_setup
from mdstorm.doctor._round_trip import COLUMNS, ROWS, is_null, judged, wrong_values


@of_values
def test_round_trip_returns_all_rows_in_every_framework(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "shards"))
    report = check_setup(f"file://{tmp_path}/a/b", spark=spark)
    assert report.problems == ()
    trip = [one.found for one in report.findings if one.check == "round-trip"]
    assert f"Spark wrote {ROWS} rows" in trip[0]
    right = f"all {ROWS} rows, each once, with the right values"
    assert trip[1] == f"torch on cpu: {right}"
    assert trip[2] == f"tensorflow on cpu:0: {right}"
    assert trip[3] == "the copy is deleted"
    assert list(tmp_path.iterdir()) == []


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
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert not cache.exists()


def test_cache_dir_check_keeps_existing_files_in_directory(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    setup_directory = tmp_path / "setup"
    setup_directory.mkdir()
    found = Setup(setup_directory).doctor("--cache-dir", f"file://{tmp_path}", "--no-round-trip")
    assert [one["status"] for one in found if one["check"] == "cache-dir"] == ["ok"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own", "setup"]


def test_round_trip_counts_lost_repeated_and_wrong_rows() -> None:
    assert judged("x", {"ids": [*range(ROWS)], "wrong": {}}).status == "ok"
    found = judged("x", {"ids": [*range(5, ROWS), 9], "wrong": {"date": 3}})
    assert found.status == "problem"
    assert "5 rows lost, 1 repeated, wrong values: date (3)" in found.found
    rows = [0, 1, 3]
    right = {
        name: [None if is_null(i) else value(i) for i in rows]
        for name, (_, value) in COLUMNS.items()
    }
    assert wrong_values(rows, right) == {}
    swapped = {name: [values[1], values[0], values[2]] for name, values in right.items()}
    assert wrong_values(rows, swapped) == dict.fromkeys(COLUMNS, 2)
    filled = {**right, "long": [*right["long"][:2], 0]}
    assert wrong_values(rows, filled) == {"long": 1}


def test_doctor_report_repr_lists_findings_with_remedies() -> None:
    report = Report((Finding("java", "problem", "there is none", "install it"),))
    assert repr(report).splitlines() == [
        "problem  java  there is none",
        "               → install it",
    ]
    assert report.to_json()["problems"] == 1


def test_full_disk_is_reported_for_both_cache_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    full = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "shards"))
    found = check_setup(f"file://{tmp_path}", round_trip=False).problems
    assert [one.check for one in found] == ["cache", "cache-dir"]
    assert all("0.0 GiB free" in one.found and "free some space" in one.remedy for one in found)


def test_failing_check_does_not_stop_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda limit: 1 // 0)
    report = check_setup()
    assert [one.check for one in report.problems] == ["limits"]
    assert "this could not be checked: ZeroDivisionError" in report.problems[0].found
    assert report.findings[-1].check == "cache-dir"
