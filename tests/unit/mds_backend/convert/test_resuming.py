"""Interrupted conversions resume, and failed conversions leave no files."""

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.interrupting import interrupts
from tests.kit.parquet_files import numbers, open_parquet, write

from mdstorm_backend import open_dataset
from mdstorm_backend.base.locks import FileLock
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.errors import CorruptDatasetError, DatasetExistsError, WriteError
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import Location
from mdstorm_backend.write import commit, job_files

ROWS = 100
#: Each of the five files is converted to its own shards.
OPTIONS: dict[str, Any] = {"shard_size": 1300, "workers": 1}


@pytest.fixture
def source(tmp_path: Path) -> ParquetDataset:
    return write(tmp_path / "source", *[numbers(20, 20 * i) for i in range(5)])


class Interruption:
    """Interrupts a conversion after the given number of rows."""

    def __init__(self, rows: int, error: BaseException) -> None:
        self.rows = rows
        self.error = error
        self.seen: list[int] = []

    def __call__(self, done: int, total: int) -> None:
        assert total == ROWS
        self.seen.append(done)
        if done >= self.rows:
            raise self.error


def interrupted(source: ParquetDataset, directory: Path, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert_parquet(
            source,
            str(directory),
            progress=Interruption(60, KeyboardInterrupt()),
            **{**OPTIONS, **options},
        )


def resumed(source: ParquetDataset, directory: Path) -> int:
    """Convert again, compare the rows, and return how many rows had already been converted."""
    seen: list[int] = []
    progress = lambda done, total: seen.append(done)  # noqa: E731
    dataset = convert_parquet(source, str(directory), progress=progress, **OPTIONS)
    assert dataset.to_table().equals(numbers(ROWS))
    assert seen[-1] == ROWS
    return seen[0]


def names(directory: Path, suffix: str) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.endswith(suffix)}


def test_resumed_conversion_skips_finished_parts(source: ParquetDataset, tmp_path: Path) -> None:
    whole = convert_parquet(source, str(tmp_path / "whole"), **OPTIONS)
    directory = tmp_path / "mds"
    interrupted(source, directory)
    assert not names(directory, ".json")
    assert len(names(directory, ".done")) == 2
    finished = {path: path.stat().st_mtime_ns for path in directory.glob("part-0000[01]*.mds")}
    assert resumed(source, directory) == 40
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    dataset = open_dataset(str(directory))
    assert [s.to_json() for s in dataset.index.shards] == [s.to_json() for s in whole.index.shards]
    assert names(directory, "") == names(tmp_path / "whole", "")


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the content of all files except the marker, which names its writer."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "_mdstorm"}


@pytest.mark.matrix
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("rows", range(0, ROWS + 1, 20))
def test_resumed_conversion_has_same_bytes_except_for_the_marker(
    source: ParquetDataset, tmp_path: Path, rows: int, workers: int
) -> None:
    whole, directory = tmp_path / "whole", tmp_path / "mds"
    options = {**OPTIONS, "workers": workers, "compression": "zstd", "hashes": ["sha1"]}
    convert_parquet(source, str(whole), **options)
    interruption = Interruption(rows, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        convert_parquet(source, str(directory), progress=interruption, **options)
    convert_parquet(source, str(directory), **options)
    assert files_in(directory) == files_in(whole)


def test_first_interrupt_waits_for_running_tasks_and_second_does_not(
    source: ParquetDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    logged, may_end, begun = threading.Event(), threading.Event(), []

    def slow(batch: Any) -> Any:
        begun.append(threading.current_thread())
        if len(begun) == 1:
            interrupt(0.001)
            logged.wait(60)
            interrupt(0.1)
            may_end.wait(60)
        return batch

    logger = logging.getLogger("mdstorm_backend.convert.conversion")
    monkeypatch.setattr(logger, "filters", [lambda _: not logged.set()])
    with interrupts() as interrupt, pytest.raises(KeyboardInterrupt):
        convert_parquet(source, str(tmp_path / "mds"), recode=slow, **OPTIONS)
    assert begun[0].is_alive()
    assert "Interrupt again (Ctrl-C) to stop at once" in caplog.text
    may_end.set()
    begun[0].join()
    assert len(begun) == 1
    assert resumed(source, tmp_path / "mds") == 0


class FullDisk:
    """Replaces `Location.write` on a disk that has room for a number of files."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = Location.write

    def __get__(self, location: Location, _: type) -> Any:
        return partial(self, location)

    def __call__(self, location: Location, name: str, buffers: Any) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.write(location, name, buffers)


#: The marker; three shards and a record for each of the five tasks; the index.
FILES = 22


@pytest.mark.long
@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("room", range(FILES))
def test_conversion_to_a_full_disk_names_free_space_and_keeps_only_what_it_can_resume(
    source: ParquetDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    resume: bool,
) -> None:
    whole, directory = tmp_path / "whole", tmp_path / "mds"
    convert_parquet(source, str(whole), **OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(Location, "write", FullDisk(room))
        with pytest.raises(WriteError, match=r"No space left on device.*[Ff]ree space there"):
            convert_parquet(source, str(directory), resume=resume, **OPTIONS)
    if resume:
        assert len(names(directory, ".done")) == max(0, room - 1) // 4
    elif room:
        assert not directory.exists()
    convert_parquet(source, str(directory), resume=resume, **OPTIONS)
    assert files_in(directory) == files_in(whole)


def test_full_disk_at_the_lock_of_a_conversion_names_free_space(
    source: ParquetDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(FileLock, "write", fail)
        with pytest.raises(WriteError, match=r"No space left on device.*Free space there"):
            convert_parquet(source, str(tmp_path / "mds"), **OPTIONS)
    assert resumed(source, tmp_path / "mds") == 0


def test_conversion_resumes_after_its_process_is_killed(
    source: ParquetDataset, tmp_path: Path
) -> None:
    program = (
        "import os, signal, sys; from mdstorm_backend.convert import convert_parquet; "
        "from mdstorm_backend.kinds import open_stored; "
        "kill = lambda done, _: os.kill(os.getpid(), signal.SIGKILL) if done >= 60 else None; "
        "convert_parquet(open_stored(sys.argv[1]), sys.argv[2], progress=kill, "
        "shard_size=1300, workers=1)"
    )
    arguments = [str(tmp_path / "source"), str(tmp_path / "mds")]
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, env=os.environ
    )
    assert process.returncode == -signal.SIGKILL
    assert "_mdstorm_writing" in names(tmp_path / "mds", "")
    assert resumed(source, tmp_path / "mds") == 40
    assert names(tmp_path / "mds", "writing") == set()


def test_conversion_has_the_id_that_earlier_versions_gave_it(tmp_path: Path) -> None:
    """Otherwise no conversion that an earlier version began would be resumed."""
    golden = Path(__file__).parents[2] / "compat/etl/golden/codecs"
    (tmp_path / "source").mkdir()
    file = tmp_path / "source" / "0.parquet"
    shutil.copyfile(next(golden.glob("part-00000-*.parquet")), file)
    os.utime(file, (5, 5))
    source = open_parquet(str(tmp_path / "source"))
    convert_parquet(source, str(tmp_path / "mds"), columns=["id"], progress=False)
    assert names(tmp_path / "mds", ".mds") == {"part-00000-ff3efac7-0.00000.mds"}


@pytest.mark.parametrize("damage", ["shard cut", "shard gone", "note cut", "note of another"])
def test_part_with_missing_or_damaged_files_is_converted_again(
    source: ParquetDataset, tmp_path: Path, damage: str
) -> None:
    directory = tmp_path / "mds"
    interrupted(source, directory)
    shard, note = (sorted(directory.glob(f"part-00001-*{suffix}"))[0] for suffix in ("mds", "done"))
    if damage == "shard cut":
        shard.write_bytes(shard.read_bytes()[:-1])
    elif damage == "shard gone":
        shard.unlink()
    elif damage == "note cut":
        note.write_bytes(note.read_bytes()[:-9])
    else:
        note.write_text(note.read_text().replace('"identity": "', '"identity": "0'))
    assert resumed(source, directory) == 20


@pytest.mark.parametrize("changed", [{"compression": "zstd"}, {"columns": ["id"]}, "the source"])
def test_unfinished_conversion_with_other_options_raises_error_or_is_replaced(
    source: ParquetDataset, tmp_path: Path, changed: Any
) -> None:
    directory = tmp_path / "mds"
    interrupted(source, directory)
    before = names(directory, "")
    options = {**OPTIONS}
    if changed == "the source":
        write(tmp_path / "source", numbers(21))
        source = open_parquet(str(tmp_path / "source"))
    else:
        options |= changed
    with pytest.raises(DatasetExistsError, match="part of an interrupted conversion"):
        convert_parquet(source, str(directory), **options)
    assert names(directory, "") == before
    dataset = convert_parquet(source, str(directory), resume=False, **options)
    assert len(dataset) == len(source)
    assert len(names(directory, "")) == len(dataset.index.shards) + 2


@pytest.mark.parametrize("first_resumes", [True, False])
def test_second_conversion_to_same_directory_raises_error_while_first_runs(
    source: ParquetDataset, tmp_path: Path, first_resumes: bool
) -> None:
    def meanwhile(done: int, total: int) -> None:
        if done == 20:
            for resume in (True, False):
                with pytest.raises(DatasetExistsError, match="another writer"):
                    convert_parquet(source, str(tmp_path / "mds"), resume=resume, **OPTIONS)

    dataset = convert_parquet(
        source, str(tmp_path / "mds"), progress=meanwhile, resume=first_resumes, **OPTIONS
    )
    assert dataset.to_table().equals(numbers(ROWS))


@pytest.mark.parametrize(
    ("module", "step"),
    [(job_files, "mark_directory"), (commit, "publish")],
    ids=["mark", "commit"],
)
def test_dataset_published_by_another_process_during_conversion_is_not_replaced(
    source: ParquetDataset, module: ModuleType, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, usual = f"memory://meanwhile/{step}", getattr(module, step)

    def after_another(*arguments: object) -> object:
        monkeypatch.undo()
        convert_parquet(source, url, **OPTIONS)
        return usual(*arguments)

    monkeypatch.setattr(module, step, after_another)
    with pytest.raises(DatasetExistsError):
        convert_parquet(source, url, resume=False, **OPTIONS)
    assert open_dataset(url).to_table().equals(numbers(ROWS))


@pytest.mark.parametrize("resume", [True, False])
def test_conversion_removes_shards_left_by_killed_spark_jobs(
    source: ParquetDataset, tmp_path: Path, resume: bool
) -> None:
    directory = tmp_path / "mds"
    interrupted(source, directory)
    killed = "part-00000-0123abcd-7.00000.mds"
    (directory / killed).write_bytes(b"of a job that wrote no records")
    dataset = convert_parquet(source, str(directory), resume=resume, **OPTIONS)
    assert len(names(directory, "")) == len(dataset.index.shards) + 2


def test_failed_conversion_without_resume_leaves_no_files(
    source: ParquetDataset, tmp_path: Path
) -> None:
    interrupted(source, tmp_path / "mds", resume=False)
    assert not (tmp_path / "mds").exists()


def test_error_in_one_thread_stops_other_threads(source: ParquetDataset, tmp_path: Path) -> None:
    interruption = Interruption(20, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        convert_parquet(
            source, str(tmp_path / "mds"), progress=interruption, shard_size=1300, workers=4
        )
    assert interruption.seen == [0, 20]


def test_conversion_from_damaged_source_leaves_no_files(
    source: ParquetDataset, tmp_path: Path
) -> None:
    file = tmp_path / "source" / "3.parquet"
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    stamp = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with pytest.raises(CorruptDatasetError, match=r"3\.parquet"):
        convert_parquet(open_parquet(str(tmp_path / "source")), str(tmp_path / "mds"), **OPTIONS)
    assert not (tmp_path / "mds").exists()
