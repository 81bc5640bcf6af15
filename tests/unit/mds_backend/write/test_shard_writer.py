import json
from decimal import Decimal
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.shard_decoder import DecodedShard, decode_files
from tests.kit.small_datasets import (
    Huge,
    array_of,
    plan,
    store_batches,
    to_table,
    write_shards,
)
from tests.kit.strategies import Data, data, moderate

from mdstorm_backend.errors import EncodingError, WriteError
from mdstorm_backend.format import shard_info
from mdstorm_backend.format.values.arrow_types import arrow_type
from mdstorm_backend.storage import Location
from mdstorm_backend.write.full_shard import (
    FullShard,
    ShardFormat,
    ShardReport,
    checked_shard_size,
)
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.tasks import join_small

#: Types whose stored form is the Python value itself.
PLAIN_TYPES = st.sampled_from(
    ["byte", "short", "integer", "long", "float", "double", "string", "binary", "decimal(10,2)",
     array_of("short"), array_of("double"), array_of("string")]
)  # fmt: skip


@moderate
@given(data(PLAIN_TYPES, min_rows=1), st.integers(900, 4000), st.integers(1, 31), st.booleans())
def test_shards_follow_the_format_and_the_size_limit(
    given_: Data, shard_size: int, batch_rows: int, nullable: bool
) -> None:
    with TemporaryDirectory() as directory:
        reports = write_shards(
            directory,
            given_.table,
            given_.fields,
            shard_size=shard_size,
            batch_rows=batch_rows,
            nullable=nullable,
        )
        shards = decode_files(Path(directory))
        sizes = [file.stat().st_size for file in sorted(Path(directory).glob("*.mds"))]
    assert [repr(row) for shard in shards for row in shard.rows] == [
        repr({name: row[name] for name in sorted(given_.fields)})
        for row in given_.table.to_pylist()
    ]
    for shard, size, report in zip(shards, sizes, reports, strict=True):
        assert size <= shard_size or len(shard.rows) == 1
        check_report(report, shard, size)


def check_report(report: ShardReport, shard: DecodedShard, size: int) -> None:
    """Check that a report matches the shard file."""
    info = report.info.to_json()
    assert info["raw_data"]["bytes"] == size
    assert info["samples"] == len(shard.rows)
    assert info["column_names"] == sorted(info["column_names"]) == shard.names
    for key in set(shard.header) - {"mdstorm"}:
        assert info[key] == shard.header[key]
    rows = {name: sum(row[name] is None for row in shard.rows) for name in shard.names}
    assert report.null_counts == {name: count for name, count in rows.items() if count}


@pytest.mark.parametrize(
    "name", ["a", "é" * 60, '"\\\n' * 20, "名前" * 30], ids=["short", "accents", "escapes", "wide"]
)
@pytest.mark.parametrize("nullable", [True, False])
def test_shards_with_nulls_stay_within_the_size_limit(
    name: str, nullable: bool, tmp_path: Path
) -> None:
    names = [name + suffix for suffix in "xyz"]
    columns = {n: [None if i % 3 else i % 100 for i in range(6000)] for n in names}
    reports = write_shards(
        tmp_path, columns, dict.fromkeys(names, "byte"), shard_size=12_000, nullable=nullable
    )
    sizes = [report.info.raw_data.bytes for report in reports]
    assert len(sizes) > 2
    assert max(sizes) <= 12_000
    # All shards except the last are nearly full.
    assert min(sizes[:-1]) > 8_000


@pytest.mark.parametrize(
    ("values", "type_", "shard_size"),
    [
        ([1] * 2500 + [None] * 4000, "byte", 20_000),
        ([[None] * 500] * 100 + [[1]], array_of("byte"), 10_000),
    ],
    ids=["rows after 2,500 others", "elements"],
)
def test_shards_with_late_null_rows_or_null_elements_stay_within_the_size_limit(
    values: list[Any], type_: Any, shard_size: int, tmp_path: Path
) -> None:
    limits = {"shard_size": shard_size, "batch_rows": 500}
    reports = write_shards(tmp_path, {"a": values}, {"a": type_}, **limits)
    assert max(report.info.raw_data.bytes for report in reports) <= shard_size


def test_sample_larger_than_the_limit_gets_its_own_shard(tmp_path: Path) -> None:
    words = ["a", "b", "c" * 5000, "d", "e" * 5000, "f" * 5000]
    reports = write_shards(tmp_path, {"word": words}, {"word": "string"}, shard_size=2000)
    assert [report.info.samples for report in reports] == [2, 1, 1, 1, 1]
    assert [row["word"] for shard in decode_files(tmp_path) for row in shard.rows] == words


def test_array_length_change_starts_a_shard_and_later_shards_are_ragged(tmp_path: Path) -> None:
    rows = [[1, 2], [3, 4], [5], [6], [7, 8], [9, 10], None, None]
    reports = write_shards(tmp_path, {"a": rows}, {"a": array_of("long")}, batch_rows=2)
    found = [report.info.column_encodings for report in reports]
    assert found == [("ndarray:int64:2",), ("ndarray:int64",)]
    assert [report.info.column_sizes for report in reports] == [(16,), (None,)]
    assert [row["a"] for shard in decode_files(tmp_path) for row in shard.rows] == rows


def test_batch_columns_may_be_in_any_order(tmp_path: Path) -> None:
    fields = {"b": "long", "a": "string"}
    table = to_table({"a": ["x"], "b": [1]}, fields)
    batches = [table.select(names).to_batches()[0] for names in (["a", "b"], ["b", "a"])]
    store_batches(batches, Location.of(tmp_path), plan(fields), ShardFormat(1 << 20), "p")
    (shard,) = decode_files(tmp_path)
    assert shard.rows == [{"a": "x", "b": 1}] * 2


def test_shard_reports_round_trip_through_json(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"a": [1, None], "b": [[1, None], [2]], "c": [Decimal("1.00"), None]}
    fields = {"a": "long", "b": array_of("long"), "c": "decimal(3,2)"}
    for report in write_shards(tmp_path, columns, fields, compression="gz"):
        assert ShardReport.from_json(json.loads(json.dumps(report.to_json()))) == report


class Disk(Location):
    """A location whose disk is full after a few files."""

    def write(self, name: str, buffers: Any) -> None:
        def until_full() -> Any:
            for i, buffer in enumerate(buffers):
                if name.endswith("00002.mds") and i == 1:
                    raise OSError(28, "No space left on device")
                yield buffer

        super().write(name, until_full())


def test_failed_write_leaves_no_shards(tmp_path: Path) -> None:
    disk = Disk(f"file://{tmp_path}")
    batch = pa.record_batch([pa.array(range(5), arrow_type("long"))], ["a"])
    with pytest.raises(WriteError, match="No space left"):
        store_batches([batch], disk, plan({"a": "long"}), ShardFormat(1), "p")
    assert list(tmp_path.iterdir()) == []


def test_shard_header_has_the_documented_fields() -> None:
    format_ = ShardFormat(None, "zstd:1", ("md5",))
    header = format_.header(("a", "é"), ("int8", "str"), None)
    assert header == (
        b'{"column_encodings": ["int8", "str"], "column_names": ["a", "\\u00e9"], '
        b'"column_sizes": [1, null], "compression": "zstd:1", "format": "mds", '
        b'"hashes": ["md5"], "size_limit": null, "version": 2}'
    )
    assert json.loads(format_.header((), (), {"x": 1}))["mdstorm"] == {"x": 1}


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        *((default, 1 << 26) for default in (None, 0, 0.0, "0")),
        *((1, 1), ("5000", 5000), (5000.0, 5000)),
        *(((1 << 32) - 1, (1 << 32) - 1), (1 << 40, (1 << 32) - 1)),
    ],
)
def test_shard_size_has_a_default_and_a_maximum(given: Any, limit: int) -> None:
    assert checked_shard_size(given) == limit


def test_shard_of_4_gib_raises_error() -> None:
    content: Any = [range((1 << 32) - 1)]
    report, _, _ = FullShard((), (), 1, content).pack("x.mds", ShardFormat(None))
    assert report.info.raw_data.bytes == (1 << 32) - 1
    with pytest.raises(WriteError, match=r"x\.mds would take 4294967296 bytes.* a size limit"):
        FullShard((), (), 1, [Huge()]).pack("x.mds", ShardFormat(None))


def cut(values: list[bytes], limit: int | None) -> list[bytes]:
    shards: list[FullShard] = []
    writer = SampleShards({"v": "bytes"}, ShardFormat(limit), shards.append)
    for value in values:
        writer.write({"v": value})
    writer.flush()
    writer.flush()
    for shard in shards:
        assert (shard.names, shard.encodings) == (("v",), ("bytes",))
    return [b"".join(shard.content) for shard in shards]


def expected_counts(values: list[bytes], limit: int | None, empty: int) -> list[int]:
    """Split samples by the format's rule, and return the sample count of each non-empty shard."""
    counts, used = [0], empty
    for value in values:
        need = 4 + len(value) + 4
        if limit and used + need > limit:
            counts.append(0)
            used = empty
        counts[-1] += 1
        used += need
    return [count for count in counts if count]


@given(st.lists(st.integers(0, 200).map(bytes), max_size=40), st.none() | st.integers(1, 1500))
def test_shards_end_where_the_next_sample_would_not_fit(
    values: list[bytes], limit: int | None
) -> None:
    shards = cut(values, limit)
    decoded = [DecodedShard(shard) for shard in shards]
    assert [row["v"] for shard in decoded for row in shard.rows] == values
    empty = 4 + 4 + len(ShardFormat(limit).header(("v",), ("bytes",), None))
    counts = [len(shard.rows) for shard in decoded]
    assert counts == expected_counts(values, limit, empty)
    for shard, count in zip(shards, counts, strict=True):
        assert limit is None or len(shard) <= limit or count == 1


def test_shard_without_a_size_limit_stays_below_4_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_info, "MAX_SHARD_BYTES", 1000)
    shards = cut([bytes(300)] * 5, None)
    assert [len(DecodedShard(shard).rows) for shard in shards] == [2, 2, 1]
    empty = len(shards[-1]) - 300
    for before in ([], [b"in another shard"]):
        full = cut([*before, bytes(1000 - empty)], None)[-1]
        assert len(full) == 1000
    with pytest.raises(EncodingError, match="4 GiB"):
        cut([bytes(1001 - empty)], None)
    with pytest.raises(EncodingError, match=r"a sample takes 1004 bytes.* 4 GiB"):
        cut([bytes(1000)], None)


@pytest.mark.parametrize(
    ("rows", "joined"),
    [([4, 4], [4, 4]), ([3, 1, 4], [4, 4]), ([3, 2, 3], [5, 3]), ([0, 2, 0, 2], [4]), ([1], [1])],
    ids=str,
)
@pytest.mark.parametrize(("most_rows", "most_bytes"), [(4, 1 << 20), (1 << 20, 32)])
def test_small_batches_are_joined_up_to_a_number_of_rows_or_bytes(
    rows: list[int],
    joined: list[int],
    most_rows: int,
    most_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mdstorm_backend.write.tasks._JOIN_ROWS", most_rows)
    monkeypatch.setattr("mdstorm_backend.write.tasks._JOIN_BYTES", most_bytes)
    numbers = iter(range(sum(rows)))
    batches = [pa.record_batch([pa.array(islice(numbers, n), pa.int64())], ["a"]) for n in rows]
    found = list(join_small(iter(batches)))
    assert [batch.num_rows for batch in found] == joined
    assert [row for batch in found for row in batch["a"].to_pylist()] == list(range(sum(rows)))
