"""``mdstorm convert`` and ``mdstorm verify --against``."""

import json
import shlex
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.edge.cli.conftest import run
from tests.kit.delta_tables import two_versions
from tests.kit.parquet_files import numbers, open_parquet

import mdstorm
from mdstorm.errors import InvalidArgumentError
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend import open_dataset
from mdstorm_backend.write.mds_writer import MDSWriter

GOLDEN = Path(__file__).parents[2] / "unit" / "compat" / "etl" / "golden"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Parquet dataset with 30 rows in three row groups."""
    (tmp_path / "source").mkdir()
    pq.write_table(numbers(30), tmp_path / "source" / "0.parquet", row_group_size=10)
    return tmp_path / "source"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target with a blank"


NOT_TEXT = UnischemaField("text", np.bool_, ())


def test_convert_prints_the_result_and_the_next_command(source: Path, target: Path) -> None:
    result = run("convert", source, target)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"file://{target}: 30 rows in 1 shard, ")
    command = f"mdstorm verify --against {source} '{target}'\n"
    assert result.stdout.endswith(f"Compare with: {command}")
    assert open_dataset(str(target)).to_table().equals(numbers(30))
    assert run("convert", source, f"{target}2", "-q").stdout == ""


def test_convert_reads_only_the_selected_columns(source: Path, target: Path) -> None:
    with materialize_dataset(None, source.as_uri(), Unischema("Wrong", [NOT_TEXT])):
        pass
    assert "Decoding field" in run("convert", source, target).stderr
    assert run("convert", source, target, "--columns", "half,id").exit_code == 0
    assert open_dataset(str(target)).schema.names == ("half", "id")


@pytest.mark.parametrize(
    ("option", "then"),
    [("--resume", "run it again to continue"), ("--no-resume", "nothing was kept")],
)
def test_interrupted_conversion_prints_whether_it_can_be_resumed(
    option: str, then: str, source: Path, target: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mdstorm_backend.write.commit.publish", interrupt)
        result = run("convert", source, target, option)
    assert (result.exit_code, result.stderr) == (130, f"interrupted: {then}\n")
    assert bool([*target.glob("*.mds")]) == (option == "--resume")
    assert run("convert", source, target).exit_code == 0


def test_decimals_option_converts_decimals_to_floats(tmp_path: Path, target: Path) -> None:
    prices = pa.array([Decimal("0.10"), None], pa.decimal128(9, 2))
    pq.write_table(pa.table({"price": prices}), tmp_path / "prices.parquet")
    source, options = tmp_path / "prices.parquet", ("--decimals", "float64")
    converted = run("convert", source, target, *options)
    assert "Compare with: mdstorm verify --decimals float64 --against" in converted.stdout
    assert open_dataset(str(target)).to_table().to_pydict() == {"price": [0.1, None]}
    assert run("verify", target, "--against", source, *options).exit_code == 0
    different = run("verify", target, "--against", source)
    assert different.exit_code == 1
    assert "is decimal128(9, 2) in" in " ".join(different.stdout.split())


def test_convert_with_every_option_applies_each_option(source: Path, target: Path) -> None:
    options = ["--columns", "text, half", "--dtype", "float32", "--shard-size", "1kb", "-j", 3]
    options += ["--compression", "zstd:1", "--format", "json", "--hash", "xxh64", "--hash", "sha1"]
    found = json.loads(run("convert", source, target, *options).stdout)
    dataset = open_dataset(str(target))
    assert found == {
        **{"url": f"file://{target}", "rows": 30, "shards": len(dataset.index.shards)},
        "bytes": sum(file.stat().st_size for file in target.glob("*.mds*")),
        "columns": {"text": "str", "half": "float32"},
    }
    assert found["shards"] > 2
    assert {shard.compression for shard in dataset.index.shards} == {"zstd:1"}
    assert {shard.hashes for shard in dataset.index.shards} == {("sha1", "xxh64")}
    against = ["verify", "--against", source, target]
    assert run(*against, "--dtype", "float32", "--columns", "text,half").exit_code == 0
    assert run(*against, "--columns", "text").exit_code == 0
    assert run(*against).exit_code == 1


def test_files_that_a_column_names_are_stored(tmp_path: Path, target: Path) -> None:
    for directory in ("source", "images"):
        (tmp_path / directory).mkdir()
    for name in ("source/_a.txt", "images/b.jpg"):
        (tmp_path / name).write_text(name)
    columns = {"near": ["_a.txt", None], "far": [f"{tmp_path}/images/b.jpg", "../images/b.jpg"]}
    pq.write_table(pa.table(columns), tmp_path / "source" / "0.parquet")
    command = [
        "convert",
        tmp_path / "source",
        target,
        "--files",
        "text=near",
        "--files",
        "image=far",
    ]
    assert "images/b.jpg is not in an allowed directory" in run(*command).stderr
    command += ["--files-below", tmp_path / "images"]
    assert "limit of 3 for one file" in run(*command, "--max-file-size", 3).stderr
    result = run(*command)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Check with: mdstorm verify '{target}'" in result.stdout
    table = open_dataset(str(target)).to_table()
    assert table["text"].to_pylist() == [b"source/_a.txt", None]
    assert table["image"].to_pylist() == [b"images/b.jpg"] * 2
    wrong = run("convert", tmp_path / "source", target, "--files", "image")
    assert "'image' is not of the form COLUMN=PATHS" in wrong.stderr


def test_existing_dataset_is_replaced_only_with_overwrite(source: Path, target: Path) -> None:
    assert run("convert", source, target).exit_code == 0
    (target / "mine.txt").write_text("mine")
    pq.write_table(numbers(5), source / "0.parquet")
    again = run("convert", source, target)
    assert again.exit_code == 3
    message = f"error: Directory is not empty: file://{target} already holds a dataset."
    assert again.stderr.startswith(message)
    assert "--overwrite" in again.stderr
    assert run("convert", source, target, "--overwrite").exit_code == 0
    assert len(open_dataset(str(target))) == 5
    assert (target / "mine.txt").read_text() == "mine"
    for folder in ("_temporary", "_k=1"):  # a job's leftover folder and a partition
        (target / folder).mkdir()
    pq.write_table(numbers(7), target / "_temporary" / "a.parquet")
    assert run("convert", source, target, "--overwrite").exit_code == 0
    pq.write_table(numbers(7), target / "_k=1" / "mine.parquet")
    assert "such as _k=1/mine.parquet" in run("convert", source, target, "--overwrite").stderr
    assert len(open_dataset(str(target))) == 5


def test_convert_does_not_replace_dataset_from_another_writer(source: Path, target: Path) -> None:
    with MDSWriter(out=target, columns={"a": "int"}) as writer:
        writer.write({"a": 1})
    before = sorted(target.iterdir())
    assert "so it is not replaced" in run("convert", source, target, "--overwrite").stderr
    assert sorted(target.iterdir()) == before


def test_overwrite_keeps_the_old_dataset_until_the_new_one_is_complete(
    source: Path, target: Path
) -> None:
    assert run("convert", source, target).exit_code == 0
    # Ignore the marker file, which has no suffix and is rewritten by each job.
    old = {path.name: path.read_bytes() for path in target.iterdir() if path.suffix}
    whole = (source / "0.parquet").read_bytes()
    (source / "0.parquet").write_bytes(whole[:4] + bytes(50) + whole[54:])
    failed = run("convert", source, target, "--overwrite")
    assert "cannot be read" in failed.stderr
    left = {path.name: path.read_bytes() for path in target.iterdir()}
    assert old.items() <= left.items()
    pq.write_table(pa.table({"t": pa.array([1], pa.time64("us"))}), source / "0.parquet")
    refused = run("convert", source, target, "--overwrite")
    assert refused.exit_code == 3
    assert "no column of a type that can be read, only 't' of type time64[us]" in refused.stderr
    assert len(open_dataset(str(target))) == 30
    pq.write_table(numbers(5), source / "0.parquet")
    assert run("convert", source, target, "--overwrite", "--no-resume").exit_code == 0
    assert not any(name.endswith(".mds") and (target / name).exists() for name in old)
    assert len(open_dataset(str(target)).to_table()) == 5


def test_convert_stores_petastorm_fields_with_their_shapes_and_encodings(target: Path) -> None:
    source = GOLDEN / "codecs"
    done = run("convert", source, target)
    assert done.exit_code == 0, done.stderr
    dataset = open_dataset(str(target))
    assert dataset.sample(0)["vec"].shape == (3,)
    assert dataset.schema["png"].encoding == "png"
    assert run("verify", "--against", source, target).exit_code == 0
    assert run("verify", target).exit_code == 0
    chosen = f"{target}-chosen"
    command = run("convert", source, chosen, "--columns", "png, id").stdout.partition("mdstorm ")[2]
    assert command.startswith("verify --columns png,id --against")
    assert run(*shlex.split(command)).exit_code == 0
    assert run("convert", source, f"{target}2", "--dtype", "float32").exit_code == 2
    refused = run("convert", source, f"{target}2", "--decimals", "float64")
    assert "read it with make_reader(…, decimals='float64')" in refused.stderr


def test_row_groups_become_shards_by_default_only_for_petastorm_datasets(
    source: Path, target: Path
) -> None:
    for options, shards in (((), 2), (("--fill-shards",), 1)):
        assert run("convert", GOLDEN / "codecs", target, *options).exit_code == 0
        assert len(open_dataset(str(target)).shard_sizes) == shards
        shutil.rmtree(target)
    assert run("convert", source, target, "--keep-row-groups").exit_code == 0
    assert open_dataset(str(target)).shard_sizes == open_parquet(str(source)).shard_sizes
    with pytest.raises(InvalidArgumentError, match="cannot be combined with spark"):
        mdstorm.convert(str(source), f"{target}-2", spark=cast(Any, object()), keep_row_groups=True)


def test_partition_values_are_strings_if_the_schema_declares_strings(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for code in ("01", "2"):
        (source / f"code={code}").mkdir(parents=True)
        table = pa.table({"id": [int(code)], "other": [int(code)]})
        pq.write_table(table, source / f"code={code}" / "0.parquet")
    fields = [UnischemaField("id", np.int64, ()), UnischemaField("code", np.str_, ())]
    with materialize_dataset(None, source.as_uri(), Unischema("Coded", fields)):
        pass
    assert run("convert", source, target).exit_code == 0
    assert [row["code"] for row in open_dataset(str(target))] == ["01", "2"]
    assert run("verify", "--against", source, target).exit_code == 0
    others = mdstorm.convert(source, f"{target}-others", columns=["other"])  # not in the schema
    with mdstorm.make_batch_reader(others.url) as reader:
        assert sorted(i for batch in reader for i in batch.other) == [1, 2]


def test_verify_against_finds_a_changed_array_in_a_petastorm_dataset(target: Path) -> None:
    source = GOLDEN / "codecs"
    run("convert", source, target, "--fill-shards")
    (shard,) = target.glob("*.mds")
    found = open_dataset(str(target))
    content = shard.read_bytes()
    vector = found.sample(3, ["vec"])["vec"].tobytes()
    assert content.count(vector) == 1
    shard.write_bytes(content.replace(vector, vector[::-1]))
    result = run("verify", "--against", source, target, "--format", "json")
    assert result.exit_code == 1
    (column,) = json.loads(result.stdout)["columns"]
    assert (column["column"], column["problem"]) == ("vec", "differs in 1 row")
    assert column["examples"][0][0] == 3


def test_verify_against_lists_differences(source: Path, target: Path) -> None:
    run("convert", source, target)
    table = numbers(30).to_pydict()
    table["half"][7] = 99.0
    pq.write_table(pa.table(table), source / "0.parquet")
    result = run("verify", "--against", source, target)
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert {"half differs in 1 row", "half 7 99.0 3.5"} <= {*lines}
    verdict = f"file://{target}: does not hold the same rows as file://{source}"
    assert lines[-1] == f"{verdict} (30 rows, and 30 rows there)"


def test_convert_and_verify_use_requested_table_version(tmp_path: Path) -> None:
    table = two_versions(tmp_path / "table")
    result = run("convert", table, tmp_path / "mds", "--version", 0)
    assert "5 rows" in result.stdout
    command = f"verify --version 0 --against {table} {tmp_path}/mds"
    assert result.stdout.endswith(f"mdstorm {command}\n")
    assert run(*command.split()).exit_code == 0
    assert run("verify", "--against", table, tmp_path / "mds").exit_code == 1
    late = ["--timestamp", "2100-01-01T00:00:00+02:00"]
    assert "3 rows" in run("convert", table, tmp_path / "late", *late).stdout
    for option, value, code, words in (
        ("--version", 9, 3, "no version 9: the newest one is 1"),
        ("--timestamp", "now", 2, "'now' is not a time"),
    ):
        result = run("convert", table, tmp_path / "none", option, value)
        assert (result.exit_code, words in result.stderr) == (code, True)
    assert not (tmp_path / "none").exists()
