"""A converted DataFrame stores the files that a column names."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import of_values, runs_python_on_executors
from tests.unit.compat.spark.converters import directories

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, MissingFileError
from mdstorm.spark import make_spark_converter
from mdstorm_backend import open_dataset


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A directory of files."""
    directory = tmp_path / "images"
    directory.mkdir()
    for number in range(20):
        (directory / f"{number}.jpg").write_bytes(bytes([number]) * 9)
    return directory


def frame(spark: Any, images: Path) -> Any:
    path = f"IF(id = 7, NULL, concat('{images}/', id, '.jpg')) AS path"
    return spark.range(0, 20, 1, 3).selectExpr("id", path)


@of_values
@pytest.mark.parametrize("staging", [pytest.param(False, marks=runs_python_on_executors), True])
def test_copy_has_the_content_of_the_files_and_is_reused_until_they_change(
    spark: Any, cache_dir: Path, images: Path, staging: bool
) -> None:
    def convert() -> Any:
        return make_spark_converter(
            frame(spark, images),
            files={"image": "path"},
            files_below=[f"{images}/"],
            staging=staging,
        )

    converter = convert()
    table = open_dataset(converter.cache_dir_url).to_table()
    expected = {n: bytes([n]) * 9 for n in range(20)} | {7: None}
    assert dict(zip(table["id"].to_pylist(), table["image"].to_pylist(), strict=True)) == expected
    assert convert().cache_dir_url == converter.cache_dir_url
    os.utime(images / "3.jpg", (5, 5))
    assert convert().cache_dir_url != converter.cache_dir_url
    assert directories(cache_dir) == 2


def test_task_refuses_a_file_outside_of_the_allowed_directories(
    spark: Any, cache_dir: Path, images: Path
) -> None:
    (images / "3.jpg").unlink()
    (images / "3.jpg").symlink_to("/etc/passwd")
    with pytest.raises(
        InvalidArgumentError, match=r"'image' of sample .* named by column 'path'.*/etc/passwd"
    ):
        make_spark_converter(
            frame(spark, images), files={"image": "path"}, files_below=[str(images)]
        )
    assert directories(cache_dir) == 0


@pytest.mark.parametrize("staging", [pytest.param(False, marks=runs_python_on_executors), True])
def test_missing_file_raises_its_error_with_the_cause(
    spark: Any, cache_dir: Path, images: Path, staging: bool
) -> None:
    (images / "3.jpg").unlink()
    with pytest.raises(MissingFileError, match=r"'image' of sample .*/3\.jpg does not") as caught:
        make_spark_converter(
            frame(spark, images),
            files={"image": "path"},
            files_below=[str(images)],
            staging=staging,
        )
    assert caught.value.__cause__ is not None
    assert directories(cache_dir) == 0


@of_values
def test_copy_is_not_reused_without_a_key_if_files_cannot_be_listed(
    spark: Any, cache_dir: Path, images: Path
) -> None:
    def convert(**options: Any) -> str:
        df = spark.range(3).selectExpr("id", f"'{images}/1.jpg' AS path")
        below = {str(images): {}, "s3://bucket/x": {"endpoint_url": "http://127.0.0.1:9"}}
        found = make_spark_converter(df, files={"image": "path"}, files_below=below, **options)
        return found.cache_dir_url

    assert convert() != convert()
    assert convert(cache_key="images") == convert(cache_key="images")


@pytest.mark.parametrize(
    ("options", "error", "found"),
    [
        ({"files": ["path"], "files_below": ["/data"]}, ArgumentTypeError, "must map"),
        ({"files": {"image": "path"}}, InvalidArgumentError, r"files_below=\["),
        ({"files": {"image": "id"}, "files_below": ["/data"]}, InvalidArgumentError, "of type"),
        ({"files": {"id": "path"}, "files_below": ["/data"]}, InvalidArgumentError, "another name"),
        ({"files": {"image": "path"}, "files_below": "/data"}, ArgumentTypeError, "in brackets"),
        ({"max_file_bytes": 0}, InvalidArgumentError, "max_file_bytes"),
    ],
)
def test_wrong_argument_raises_error_before_anything_is_written(
    spark: Any, cache_dir: Path, images: Path, options: Any, error: Any, found: str
) -> None:
    with pytest.raises(error, match=found):
        make_spark_converter(frame(spark, images), **options)
    assert directories(cache_dir) == 0


def test_files_of_data_that_are_read_in_place_are_refused(data: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="read in place"):
        make_spark_converter(str(data), files={"image": "s"}, files_below=["/data"])
