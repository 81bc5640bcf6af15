"""`on_corrupt="skip"` with `decode=`: damaged images are skipped, also beside other row changes."""

import logging
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.kit.readers import write_parquet
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either, with_torch

from mdstorm import TransformSpec
from mdstorm.predicates import in_lambda
from mdstorm.pytorch import DataLoader
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

ROWS, DAMAGED, NULL = 12, (4, 5), 7
SOUND = [n for n in range(ROWS) if n not in DAMAGED]
IN_PROCESS: Any = {"reader_pool_type": "process", "workers_count": 1}
DECODED: Any = {"on_corrupt": "skip", "decode": "image", "size": 4}


def image_file() -> bytes:
    file = BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return file.getvalue()


def images(*, with_null: bool = False) -> dict[str, Any]:
    """Return the columns of a dataset with two damaged images."""
    files: list[bytes | None] = [image_file() for _ in range(ROWS)]
    for row in DAMAGED:
        files[row] = b"not an image"
    if with_null:
        files[NULL] = None
    return {"n": range(ROWS), "image": files}


def in_mds(directory: Path, **options: Any) -> SparkDatasetConverter:
    return converter_of(directory, images(**options), {"n": "long", "image": "binary"})


def in_parquet(directory: Path, **options: Any) -> SparkDatasetConverter:
    return make_spark_converter(write_parquet(directory, images(**options), row_group_size=6))


with_both = pytest.mark.parametrize("write", [in_mds, in_parquet], ids=["mds", "parquet"])


def same(frame: Any) -> Any:
    return frame


def numbers(batches: Any) -> list[int]:
    return [n for batch in batches for n in batch["n"]]


@pytest.mark.matrix
@with_either
@with_both
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"transform_spec": TransformSpec(same)},
        {"transform_spec": TransformSpec(selected_fields=["image", "n"])},
        {"transform_spec": TransformSpec(same), "cur_shard": 0, "shard_count": 1},
        # Worker processes would import this module, with TensorFlow, for one of its functions.
        {"transform_spec": TransformSpec(lambda frame: frame), **IN_PROCESS},
        {"predicate": in_lambda(["n"], lambda n: n >= 0)},
        {"filters": [("n", ">=", 0)]},
    ],
    ids=["plain", "function", "selection", "share", "process", "predicate", "filters"],
)
def test_only_the_damaged_images_are_skipped(
    tmp_path: Path, write: Any, read: Read, arguments: Any
) -> None:
    batches = read(write(tmp_path / "data"), batch_size=5, **DECODED, **IN_ORDER, **arguments)
    assert numbers(batches) == SOUND


@with_both
@pytest.mark.parametrize(
    "arguments",
    [
        {"fill_nulls": {"image": image_file()}, "transform_spec": TransformSpec(same)},
        {"null_masks": ["image"]},
    ],
    ids=["filled", "masked"],
)
def test_null_images_are_filled_beside_damaged_images(
    tmp_path: Path, write: Any, arguments: Any
) -> None:
    made = write(tmp_path / "data", with_null=True)
    batches = with_torch(made, batch_size=ROWS, **DECODED, **IN_ORDER, **arguments)
    assert numbers(batches) == SOUND


@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"transform_spec": TransformSpec(same)}, {"filters": [("n", ">=", 0)]}],
    ids=["plain", "function", "filters"],
)
@pytest.mark.filterwarnings("ignore:Currently make_reader supports")
def test_loader_over_reader_counts_and_logs_the_damaged_images(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Any, arguments: Any
) -> None:
    url = in_mds(tmp_path / "data").cache_dir_url
    reader = make(url, shuffle_row_groups=False, **DECODED, **arguments)
    with caplog.at_level(logging.WARNING), DataLoader(reader, 4) as loader:
        assert [n for batch in loader for n in batch["n"].tolist()] == SOUND
        assert loader.statistics().skipped == 2  # type: ignore[attr-defined]
    lines = [r.getMessage() for r in caplog.records if "were skipped" in r.getMessage()]
    named = [row for row in range(ROWS) for line in lines if f"sample {row} of" in line]
    assert len(lines) == 2
    # Filters hide which samples the rows came from.
    assert named == ([] if "filters" in arguments else list(DAMAGED))


@pytest.mark.parametrize("arguments", [{"filters": [("n", "!=", 4)]}, {"order": "elastic"}])
def test_damaged_images_are_counted_unless_a_filter_leaves_them_out(
    tmp_path: Path, arguments: Any
) -> None:
    options = {"seed": 1, "num_epochs": 1, **DECODED, **arguments}
    with in_mds(tmp_path / "data").make_torch_dataloader(batch_size=3, **options) as loader:
        assert sorted(numbers(loader)) == SOUND
        assert loader.statistics().skipped == (1 if "filters" in arguments else 2)


@pytest.mark.parametrize(
    "arguments",
    [{"filters": [("n", ">=", 1)]}, {"transform_spec": TransformSpec(same)}],
    ids=["filters", "function"],
)
@pytest.mark.parametrize("taken", [1, 2, 3])
def test_state_after_damaged_images_resumes_with_next_row(
    tmp_path: Path, arguments: Any, taken: int
) -> None:
    """The second batch has the damaged images."""
    converter = in_parquet(tmp_path / "data")
    options = {**DECODED, **IN_ORDER, **arguments, "batch_size": 3}
    with converter.make_torch_dataloader(**options) as loader:
        batches = [batch["n"].tolist() for batch in loader]
    with converter.make_torch_dataloader(**options) as loader:
        iterator = iter(loader)
        begun = [batch["n"].tolist() for batch in islice(iterator, taken)]
        state = loader.state_dict()
    with converter.make_torch_dataloader(**options) as loader:
        loader.load_state_dict(state)
        rest = [batch["n"].tolist() for batch in loader]
    assert begun + rest == batches
