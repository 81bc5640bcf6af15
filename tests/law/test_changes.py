"""Files that change at any moment of reading give the old rows, or the error that they changed.

The change happens right before or after one of the system calls that look at the data, for each of
them in turn. So it also happens between a check and the read that it protects.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet

from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import DatasetChangedError
from mdstorm_backend.read import mds_shard
from mdstorm_backend.storage import pins

ROWS, ADDED = 4, 1000
#: Nanoseconds of the files' times: most are in the middle of a second.
WRITTEN = 1_800_000_000_123_456_789


def write_mds(path: Path, added: int, *, text: bool = False, compression: str = "") -> None:
    columns = {"n": "int64", **({"text": "str"} if text else {})}
    options: Any = {"size_limit": 260 if text else 200, "compression": compression or None}
    with MDSWriter(columns=columns, out=str(path), **options) as writer:
        for n in range(ROWS):
            writer.write({"n": n + added, "text": "text"})


def write_parquet(path: Path, added: int) -> None:
    path.mkdir()
    options: Any = {"compression": "none", "use_dictionary": False, "row_group_size": 4}
    for number, part in enumerate(np.array_split(np.arange(ROWS) + added, 2)):
        pq.write_table(pa.table({"n": part}), path / f"{number}.parquet", **options)


Open = Callable[[Path], Any]


def in_place(path: Path) -> Any:
    return open_dataset(str(path))


def copied(path: Path) -> Any:
    cache = CacheOptions(directory=str(path.parent / f"cache of {path.name}"))
    return open_dataset(str(path), cache=cache)


def parquet_copied(path: Path) -> Any:
    cache = CacheOptions(directory=str(path.parent / f"cache of {path.name}"))
    return open_parquet(str(path), cache=cache)


KINDS: dict[str, tuple[Callable[[Path, int], None], Open]] = {
    "records": (write_mds, in_place),
    "values": (lambda path, added: write_mds(path, added, text=True), in_place),
    "copied": (write_mds, copied),
    "zipped": (lambda path, added: write_mds(path, added, compression="gz"), in_place),
    "zipped and copied": (lambda path, added: write_mds(path, added, compression="gz"), copied),
    "parquet": (write_parquet, lambda path: open_parquet(str(path))),
    "parquet copied": (write_parquet, parquet_copied),
}


def files(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.name != "index.json" and one.is_file())


def overwrite(path: Path, new: Path, *, adds: bytes, time: int) -> None:
    """Write other content into the files, without truncating them, which may be mapped."""
    for file in files(new):
        with open(path / file.name, "r+b") as target:
            target.write(file.read_bytes() + adds)
        os.utime(path / file.name, ns=(time, time))


#: Changes that a time or a size shows. Of equal size, a time agrees with itself cut to seconds.
CHANGES: dict[str, dict[str, Any]] = {
    "later": {"adds": b"", "time": WRITTEN + 1},
    "larger, with a whole second": {"adds": b"more", "time": WRITTEN // 10**9 * 10**9},
}


@contextmanager
def at_call(
    number: int, folder: Path, act: Callable[[], object], *, is_after: bool
) -> Iterator[list[int]]:
    """Call `act` once, before or after the call of this number; yield the number of calls."""
    called, originals = [0], {name: getattr(os, name) for name in ("stat", "fstat", "open")}

    def counting(original: Any) -> Any:
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{target}") if type(target) is int else str(target)
            called[0] += path.startswith(f"{folder}/")
            is_now = called[0] == number and path.startswith(f"{folder}/")
            if is_now and not is_after:
                act()
            try:
                return original(target, *arguments, **options)
            finally:
                if is_now and is_after:
                    act()

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, original in originals.items():
            patch.setattr(os, name, counting(original))
        yield called


def outcome(dataset: Any) -> str:
    try:
        tables = [dataset.to_table()["n"].to_pylist() for _ in range(2)]
    except DatasetChangedError:
        return "changed"
    return "old" if tables == [[*range(ROWS)]] * 2 else f"{tables}"


#: The gate has each kind and, in turn, each change.
CASES = [
    pytest.param(kind, change, marks=() if (one + other) % 2 else pytest.mark.long)
    for one, kind in enumerate(KINDS)
    for other, change in enumerate(CHANGES)
]


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_change_before_or_after_any_call_gives_old_rows_or_an_error(
    kind: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    write, opened = KINDS[kind]
    write(tmp_path / "new", ADDED)
    found = dict[tuple[int, bool], str]()
    for number in count(1):
        for is_after in (False, True):
            path = tmp_path / f"{number} {is_after}"
            write(path, 0)
            for file in files(path):
                os.utime(file, ns=(WRITTEN, WRITTEN))
            dataset = opened(path)
            act = partial(overwrite, path, tmp_path / "new", **CHANGES[change])
            with at_call(number, path, act, is_after=is_after) as called:
                found[number, is_after] = outcome(dataset)
        if called[0] < number:
            break
    assert {place: text for place, text in found.items() if text not in ("old", "changed")} == {}
    assert "changed" in found.values()
    assert found[number, True] == "old"


def write_large(path: Path, added: int) -> None:
    """Write shards that are mapped: smaller ones are read into memory."""
    with MDSWriter(columns={"n": "int64", "b": "bytes"}, out=str(path), size_limit=300_000) as out:
        for n in range(500):
            out.write({"n": n + added, "b": bytes(1_000)})


def test_sample_of_a_rewritten_file_is_an_error_after_one_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = tmp_path / "data", tmp_path / "new"
    write_large(path, 0)
    write_large(new, ADDED)
    dataset = open_dataset(str(path))
    assert [dataset[row]["n"] for row in (0, 499)] == [0, 499]
    last = files(path)[-1]
    with open(last, "r+b") as target:
        target.write((new / last.name).read_bytes())
    os.utime(last, ns=(WRITTEN, WRITTEN))
    later = perf_counter() + 1  # while samples are read one after another, a check is due
    for module in (mds_shard, pins):
        monkeypatch.setattr(module, "perf_counter", lambda: later)
    assert dataset[0]["n"] == 0
    with pytest.raises(DatasetChangedError):
        dataset[499]
