"""``decode=`` and ``size=`` in loaders and readers: binary columns as pixel arrays."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from tests.kit.parquet_files import write
from tests.unit.compat.spark.converters import IN_ORDER

from mdstorm import TransformSpec, convert, make_batch_reader, make_reader
from mdstorm.errors import InvalidArgumentError, NullValueError
from mdstorm.predicates import in_lambda
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import open_dataset

ROWS = 6
IDENTITY = TransformSpec(lambda rows: rows)
READERS = pytest.mark.parametrize("make", [make_batch_reader, make_reader])


def file(number: int) -> bytes:
    """Return a JPEG file containing a grey image with brightness `number`."""
    stream = io.BytesIO()
    Image.new("RGB", (32, 24), (number, number, number)).save(stream, "JPEG")
    return stream.getvalue()


def converter(folder: Path, images: Any = None) -> SparkDatasetConverter:
    images = list(map(file, range(ROWS))) if images is None else images
    table = pa.table({"id": range(ROWS), "image": pa.array(images, pa.binary())})
    write(folder, table.slice(0, 4), table.slice(4))
    return SparkDatasetConverter(
        f"file://{folder}", [f"file://{folder}/{n}.parquet" for n in (0, 1)], ROWS
    )


HUGGING_FACE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def of_hugging_face(folder: Path, kind: str) -> SparkDatasetConverter:
    """Return a converter over images as Hugging Face's datasets store them, in Parquet or MDS."""
    images = [{"bytes": file(number), "path": f"{number}.jpg"} for number in range(ROWS)]
    table = pa.table({"id": range(ROWS), "image": pa.array(images, HUGGING_FACE)})
    write(folder / "parquet", table)
    url = f"file://{folder / 'parquet'}"
    if kind == "parquet":
        return SparkDatasetConverter(None, [f"{url}/0.parquet"], ROWS)
    convert(url, f"file://{folder / 'mds'}")
    dataset = open_dataset(str(folder / "mds"))
    return SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)


def torch_pixels(made: SparkDatasetConverter, **arguments: Any) -> Any:
    (batch,) = made.make_torch_dataloader(ROWS, **IN_ORDER, **arguments)
    return batch["image"].numpy()


def tf_pixels(made: SparkDatasetConverter, **arguments: Any) -> Any:
    (batch,) = made.make_tf_dataset(ROWS, **IN_ORDER, **arguments)
    return batch.image.numpy()


FRAMEWORKS = pytest.mark.parametrize("pixels", [torch_pixels, tf_pixels], ids=["torch", "tf"])


@pytest.mark.matrix
@FRAMEWORKS
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize(("size", "shape"), [(None, (24, 32)), (16, (16, 16)), ((8, 20), (8, 20))])
def test_decoded_images_are_stacked_as_pixels(
    tmp_path: Path, pixels: Callable[..., Any], order: str, size: Any, shape: tuple[int, int]
) -> None:
    found = pixels(converter(tmp_path), decode="image", size=size, order=order)
    assert (found.dtype, found.shape) == (np.uint8, (ROWS, *shape, 3))
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), range(ROWS), atol=1)


@pytest.mark.long
@pytest.mark.parametrize(("size", "transform"), [((8, 20), IDENTITY), (None, None)])
def test_decoded_image_element_spec_has_given_size(
    tmp_path: Path, size: Any, transform: Any
) -> None:
    made = converter(tmp_path)
    options = {"decode": ["image"], "size": size, "transform_spec": transform}
    spec = made.make_tf_dataset(**options).element_spec.image
    assert (spec.dtype.name, spec.shape.as_list()) == ("uint8", [None, *(size or (None, None)), 3])
    x, y = next(iter(made.make_tf_dataset(decode="image", size=4, features="image", labels="id")))
    assert (x.shape[1:], y.dtype.name) == ((4, 4, 3), "int64")


@pytest.mark.matrix
@FRAMEWORKS
@pytest.mark.parametrize("kind", ["parquet", "mds"])
@pytest.mark.parametrize("transform", [None, IDENTITY])
def test_structs_of_hugging_face_are_decoded_like_files(
    tmp_path: Path, pixels: Callable[..., Any], kind: str, transform: Any
) -> None:
    arguments = {"decode": "image", "size": 8, "transform_spec": transform}
    found = pixels(of_hugging_face(tmp_path, kind), **arguments)
    np.testing.assert_array_equal(found, pixels(converter(tmp_path / "files"), **arguments))


@READERS
@pytest.mark.filterwarnings("ignore:.*reading only Petastorm datasets")
def test_readers_decode_structs_of_hugging_face(tmp_path: Path, make: Any) -> None:
    made = of_hugging_face(tmp_path, "parquet")
    with make(made.file_urls, decode=["image"], **IN_ORDER) as reader:
        found = [np.atleast_2d(row.image) for row in reader]
    brightness = np.concatenate([one.reshape(-1, 24, 32, 3)[:, 0, 0, 0] for one in found])
    assert brightness.tolist() == list(range(ROWS))


def test_struct_without_an_image_file_raises_error(tmp_path: Path) -> None:
    images = pa.array([{"bytes": None, "path": "elsewhere.jpg"}], HUGGING_FACE)
    write(tmp_path, pa.table({"image": images, "other": pa.array([{"bytes": "text"}])}))
    made = SparkDatasetConverter(None, [f"file://{tmp_path / '0.parquet'}"], 1)
    with pytest.raises(NullValueError, match=r"'image' of sample 0 of .* has no file"):
        torch_pixels(made, decode="image", schema_fields=["image"])
    with pytest.raises(InvalidArgumentError, match="'other', which is of type struct"):
        torch_pixels(made, decode="other", schema_fields=["other"])


@pytest.mark.matrix
@READERS
@pytest.mark.parametrize(
    ("pool", "spec"),
    [
        ("thread", None),
        ("thread", IDENTITY),
        ("dummy", None),
        ("process", IDENTITY),
        pytest.param("process", None, marks=pytest.mark.long),
    ],
)
@pytest.mark.filterwarnings("ignore:Currently make_reader supports reading only Petastorm")
def test_reader_yields_decoded_pixels(
    tmp_path: Path, make: Callable[..., Any], spec: Any, pool: str
) -> None:
    converter(tmp_path)
    gets_files = in_lambda(["image"], lambda image: isinstance(image, bytes))
    options = {
        "decode": "image",
        "reader_pool_type": pool,
        "transform_spec": spec,
        "shuffle_row_groups": False,
    }
    with make(f"file://{tmp_path}", **options) as reader:
        assert reader.schema.fields["image"].shape == (None, None, 3)
    with make(f"file://{tmp_path}", size=16, predicate=gets_files, **options) as reader:
        field = reader.schema.fields["image"]
        assert (field.numpy_dtype, field.shape) == (np.uint8, (16, 16, 3))
        assert "decode=image as 16x16" in repr(reader)
        image = next(reader).image
        assert (image.dtype, image.shape[-3:]) == (np.uint8, (16, 16, 3))


def test_null_image_raises_error_unless_filled(tmp_path: Path) -> None:
    made = converter(tmp_path, [file(0), None, *map(file, range(2, ROWS))])
    with pytest.raises(NullValueError, match=r"'image' holds 1 null, .* null_masks=\['image'\]"):
        torch_pixels(made, decode="image", schema_fields=["image"])
    with pytest.raises(
        NullValueError, match=r"'image' of row 1 among 6 rows read from .* is null: pass"
    ):
        torch_pixels(made, decode="image", schema_fields=["image"], filters=[("id", ">", -1)])
    filled = torch_pixels(made, decode="image", fill_nulls={"image": file(9)})
    assert filled[1].mean() == 9
    (masked,) = made.make_torch_dataloader(ROWS, decode="image", null_masks=["image"], **IN_ORDER)
    assert [image.mean() for image in masked["image"].numpy()[:3]] == [0, 0, 2]
    assert masked["image_is_null"].tolist() == [False, True, *[False] * (ROWS - 2)]
    for argument in ("filters", "where"):
        left = torch_pixels(made, decode="image", **{argument: [("image", "!=", None)]})
        assert len(left) == ROWS - 1


def test_images_that_are_null_in_all_rows_need_a_size(tmp_path: Path) -> None:
    empty = converter(tmp_path / "nulls", [None] * ROWS)
    assert not torch_pixels(empty, decode="image", size=16, null_masks=["image"]).any()
    with pytest.raises(InvalidArgumentError, match=r"'image' is null in all rows .* pass size="):
        torch_pixels(empty, decode="image", null_masks=["image"])


@FRAMEWORKS
@pytest.mark.parametrize("selected", [["image"], ["image", "image_is_null"]])
def test_selection_may_leave_out_the_mask_of_images(
    tmp_path: Path, pixels: Callable[..., Any], selected: list[str]
) -> None:
    made = converter(tmp_path, [file(9), None, *map(file, range(2, ROWS))])
    spec = TransformSpec(selected_fields=selected)
    found = pixels(made, decode="image", null_masks=["image"], transform_spec=spec)
    assert found[1].max() == 0
    assert found[0].max() == 9
