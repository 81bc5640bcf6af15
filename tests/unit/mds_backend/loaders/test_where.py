"""``where=`` of `StreamingDataset`: an epoch consists of the rows that match."""

import datetime
import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kit.small_datasets import array_of, write_dataset, write_numbers

from mdstorm import make_batch_reader
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.cache import clear_cached, list_cached
from mdstorm_backend.cache.directory import FileIdentity, Record
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, StateMismatchError

ROWS, SHARDS = 61, 9
TABLE = [
    {
        "number": number,
        "half": None if number % 7 == 0 else number / 2,
        "text": [None, "a", "b", "c"][number % 4],
        "day": datetime.date(2026, 1, 1 + number),
        "time": datetime.datetime(2026, 1, 1, number),
        "list": [number],
    }
    for number in range(20)
]
FIELDS = {
    "number": "long",
    "half": "double",
    "text": "string",
    "day": "date",
    "time": "timestamp",
    "list": array_of("long"),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory where results are kept."""
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.matrix
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_compared_with_scalars_of_their_own_type(
    tmp_path: Path, unit: str, zone: str
) -> None:
    days = [datetime.datetime(2024, 1, day, tzinfo=datetime.timezone.utc) for day in range(1, 9)]
    times = pa.array(days, pa.timestamp(unit, zone))
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"number": range(8), "t": times}), tmp_path / "data/a.parquet")
    stored = pq.read_table(tmp_path / "data/a.parquet")["t"]
    for third in (times[2], stored[2]):
        wheres: list[tuple[Any, list[int]]] = [
            (pc.field("t") > third, [3, 4, 5, 6, 7]),
            ([("t", "<=", third)], [0, 1, 2]),
            ([("t", "=", third)], [2]),
            ([("t", "in", [third, stored[4]])], [2, 4]),
            ([("t", "not in", [third])], [0, 1, 3, 4, 5, 6, 7]),
        ]
        for where, expected in wheres:
            with make_batch_reader(f"file://{tmp_path}/data", where=where, num_epochs=1) as reader:
                assert sorted(n for b in reader for n in b.number.tolist()) == expected


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows of TABLE in shards of a few rows."""
    columns = {name: [row[name] for row in TABLE] for name in FIELDS}
    return write_dataset(tmp_path_factory.mktemp("where") / "data", columns, FIELDS, tasks=5).url


def chosen(url: str, **options: Any) -> list[int]:
    dataset = StreamingDataset(local=url, order=ExactOrder(), **options)
    return [sample["number"] for sample in dataset]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([("number", ">", 17)], [18, 19]),
        ([("text", "in", {"a"}), ("number", "<", 6)], [1, 5]),
        (pc.field("number") > 17, [18, 19]),
        (
            (pc.field("number") * 2 == pc.field("half") * 4) & (pc.field("text") == "c"),
            [3, 11, 15, 19],
        ),
        (pc.is_in(pc.field("number"), pa.array(range(3, 19))) & (pc.field("half") > 8), [17, 18]),
    ],
    ids=["one", "two", "expression", "columns", "values"],
)
def test_conditions_and_expressions_choose_rows(table: str, where: Any, expected: Any) -> None:
    assert chosen(table, where=where) == expected


def test_expressions_that_are_shown_alike_have_their_own_results(table: str) -> None:
    for value in (12, 13):
        values = pa.array([*range(-50, 0), value, *range(50, 100)])
        assert chosen(table, where=pc.field("number").isin(values)) == [value]


def test_conditions_apply_to_all_streams(tmp_path: Path) -> None:
    streams = [Stream(local=write_numbers(tmp_path / f"{i}", 4).url) for i in range(2)]
    dataset = StreamingDataset(streams=streams, order=ExactOrder(), where=[("number", ">", 1)])
    assert [sample["number"] for sample in dataset] == [2, 3, 2, 3]


def test_result_is_kept_with_the_cache(
    table: str, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        assert chosen(table, where=[("number", ">", 17)]) == [18, 19]
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("where=")]
    assert len(lines) == 1
    assert "matches 2 of 20 rows" in lines[0]
    assert [kept.url for kept in list_cached()] == [table]
    assert clear_cached() > 0
    assert not list(cache.iterdir())
    assert chosen(table, where=[("number", ">", 17)]) == [18, 19]


#: Conditions in groups: those of one group share a result, and each group has its own.
SHARED: list[list[Any]] = [
    [
        [("text", "in", ["a", "c"])],
        [("text", "in", ["c", "a"])],
        [("text", "in", {"a", "c"})],
        [[("text", "in", ("a", "c"))]],
    ],
    [[("number", "=", 4)], (("number", "==", 4),), [("number", "=", np.int64(4))]],
    [[("number", "!=", 4)]],
    [[("number", "=", 5)]],
    [[("half", "=", 4)]],
    [[("half", "=", None)]],
    [[("half", "!=", None)]],
    [[("number", ">", 4)]],
    [[("number", ">=", 4)]],
    [[("number", ">", 4), ("number", ">=", 4)]],
    [[[("number", ">", 4)], [("number", ">=", 4)]]],
    [[("text", "in", ["a"])]],
    [[("text", "not in", ["a"])]],
    [pc.field("number") > 4],
    [pc.field("number") > 5],
]


def test_only_equal_conditions_share_a_kept_result(table: str, cache: Path) -> None:
    for number, group in enumerate(SHARED, 1):
        found = {tuple(chosen(table, where=where, columns=["number"])) for where in group}
        assert len(found) == 1, group
        assert len([*cache.glob("*/where-*.bits")]) == number, group


def test_changed_dataset_is_evaluated_again(tmp_path: Path) -> None:
    url = write_numbers(tmp_path / "data", 9).url
    assert chosen(url, where=[("number", ">", 6)]) == [7, 8]
    write_numbers(tmp_path / "other", 11)
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "data")
    assert chosen(url, where=[("number", ">", 6)]) == [7, 8, 9, 10]


def with_record(kept: Path, content: bytes) -> None:
    """Replace a kept file, and let its record agree."""
    kept.write_bytes(content)
    (record,) = (kept.parent / ".mdstorm").glob("*.shard")
    record.write_bytes(Record(files={kept.name: FileIdentity.of(kept.stat())}).to_bytes())


#: What a kept file may hold instead, made from its content.
WRONG: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "text": lambda content: b"damaged",
    "without bits": lambda content: content[: content.index(b"\n") + 1],
    "shorter": lambda content: content[:-1],
    "longer": lambda content: content + b"\xff",
    "one bit": lambda content: content[:-1] + bytes([content[-1] ^ 16]),
    "other rows": lambda content: content.replace(b" 20 ", b" 21 ", 1),
    "of an earlier version": lambda content: content.partition(b"\n")[2],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_result_counts_as_absent(
    wrong: Callable[[bytes], bytes], table: str, cache: Path
) -> None:
    assert chosen(table, where=[("number", ">", 17)]) == [18, 19]
    (kept,) = cache.glob("*/where-*.bits")
    right = kept.read_bytes()
    assert wrong(right) != right
    with_record(kept, wrong(right))
    assert chosen(table, where=[("number", ">", 17)]) == [18, 19]
    assert kept.read_bytes() == right


def below_a_file(cache: Path, _kept: Path) -> None:
    cache.rename(cache.with_name("moved"))
    cache.write_bytes(b"")


def locks_below_a_file(_cache: Path, kept: Path) -> None:
    shutil.rmtree(kept.parent / ".mdstorm")
    (kept.parent / ".mdstorm").write_bytes(b"")
    kept.unlink()


def linked_record(cache: Path, kept: Path) -> None:
    mine = cache.with_name("mine")
    mine.write_bytes(b"my notes")
    (record,) = (kept.parent / ".mdstorm").glob("*.shard")
    record.unlink()
    record.symlink_to(mine)
    kept.unlink()


def linked_result(cache: Path, kept: Path) -> None:
    mine = cache.with_name("mine")
    kept.rename(mine)
    kept.symlink_to(mine)
    shutil.rmtree(kept.parent / ".mdstorm")
    (kept.parent / ".mdstorm").write_bytes(b"")


def linked_directory(cache: Path, kept: Path) -> None:
    (kept.parent / ".mdstorm").rename(cache.with_name("mine"))
    (kept.parent / ".mdstorm").symlink_to(cache.with_name("mine"))


UNUSABLE = [below_a_file, locks_below_a_file, linked_record, linked_result, linked_directory]


@pytest.mark.parametrize("damage", UNUSABLE)
def test_unusable_cache_is_logged_once_and_conditions_are_evaluated(
    damage: Callable[[Path, Path], None], table: str, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen(table, where=[("number", ">", 17)])
    damage(cache, *cache.glob("*/where-*.bits"))
    mine = cache.with_name("mine")
    before = mine.read_bytes() if mine.is_file() else b""
    caplog.set_level("WARNING")
    assert chosen(table, where=[("number", ">", 17)]) == [18, 19]
    (line,) = caplog.messages
    assert "is not kept, and will be computed again: " in line
    assert (mine.read_bytes() if mine.is_file() else b"") == before


def test_result_that_does_not_fit_on_the_disk_is_not_kept(
    table: str, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    chosen(table, where=[("number", ">", 18)])
    monkeypatch.setattr(Path, "write_bytes", fail)
    caplog.set_level("WARNING")
    assert chosen(table, where=[("number", ">", 17)]) == [18, 19]
    (line,) = caplog.messages
    assert "No space left on device" in line
    assert len(list(cache.glob("*/where-*.bits"))) == 1
    assert list(cache.rglob("*.part")) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_warm_cache_of_another_user_is_used_if_it_is_readable(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    with TemporaryDirectory(dir="/tmp") as folder:  # pytest's directories are private
        os.chmod(folder, 0o755)
        monkeypatch.setenv("MDSTORM_CACHE_DIR", f"{folder}/cache")
        url = write_numbers(f"{folder}/data", 9).url
        assert chosen(url, where=[("number", ">", 6)]) == [7, 8]
        os.chmod(f"{folder}/cache", 0o755)
        caplog.clear()
        os.seteuid(12345)
        try:
            assert chosen(url, where=[("number", ">", 6)]) == [7, 8]
            assert caplog.messages == []
            assert chosen(url, where=[("number", ">", 7)]) == [8]
        finally:
            os.seteuid(0)
    assert ["is not kept" in line for line in caplog.messages].count(True) == 1


def test_compressed_shards_are_decompressed_in_memory_if_the_cache_is_unusable(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = write_numbers(tmp_path / "data", ROWS, compression="zstd", tasks=3).url
    cache.write_bytes(b"")
    caplog.set_level("WARNING")
    dataset = StreamingDataset(local=url, order=ExactOrder())
    for _ in range(2):
        assert [sample["number"] for sample in dataset] == [*range(ROWS)]
    (line,) = caplog.messages
    assert "decompressed each time" in line


def test_threads_evaluate_conditions_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(chosen(url, where=[("number", "<", 3)])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0, 1, 2]] * 4
    assert sum(r.getMessage().startswith("where=") for r in caplog.records) == 1


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([("nmber", "=", 1)], "where= has .*no column 'nmber'.*number"),
        (pc.field("nope") > 1, "nope"),
        (
            [("number", "=", "x")],
            "'number', '=', 'x'.*cannot compare column 'number' of type int64",
        ),
        ([("list", ">", 1)], "where= has .*only with None"),
        ([("number", ">", 100)], "matches none of the 20 rows"),
    ],
    ids=["column", "expression", "type", "list", "none"],
)
def test_conditions_that_do_not_fit_raise_an_error_before_any_batch(
    table: str, where: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        StreamingDataset(local=table, batch_size=2, where=where)


@pytest.mark.parametrize(
    "where",
    [[], [[]], [("number", 1)], [("number", "~", 1)], [("number", "in", "abc")], "number > 1", 5],
)
def test_wrong_form_of_conditions_raises_an_error(table: str, where: Any) -> None:
    with pytest.raises((InvalidArgumentError, ArgumentTypeError), match="where"):
        StreamingDataset(local=table, order=ExactOrder(), where=where)


def test_state_of_other_conditions_is_refused(url: str) -> None:
    def loader(where: Any, **options: Any) -> StreamingDataLoader:
        dataset = StreamingDataset(local=url, order=ExactOrder(), where=where, **options)
        return StreamingDataLoader(dataset, batch_size=2)

    one = loader([("number", "<", 8)])
    next(iter(one))
    with pytest.raises(StateMismatchError, match=r"rows: .*pass the same rows= and where="):
        loader([("number", "<", 9)]).load_state_dict(one.state_dict())
    # What counts is the rows, however they are stated.
    same = loader(None, rows=np.arange(8))
    same.load_state_dict(one.state_dict())
