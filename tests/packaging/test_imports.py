"""Importing the packages is cheap: frameworks and cloud SDKs are loaded only when needed."""

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.kit.programs import run_command

from mdstorm import convert
from mdstorm_backend import MDSWriter
from mdstorm_migrate.petastorm.names import PUBLIC

HEAVY = {
    *("adlfs", "databricks", "deltalake", "gcsfs", "pandas", "pyiceberg", "pyspark", "s3fs"),
    *("tensorflow", "torch"),
}


def loaded_after(program: str) -> set[str]:
    """Return the modules that a program loads in a new process."""
    report = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules))"
    done = run_command(sys.executable, "-c", f"{report}\n{program}", cwd=Path.cwd())
    loaded = {*done.stdout.rpartition("loaded:")[2].split()}
    assert "sys" in loaded
    return loaded


@pytest.mark.parametrize("package", ["mdstorm", "mdstorm_backend", "mdstorm_migrate"])
def test_import_loads_no_framework(package: str) -> None:
    assert not HEAVY & loaded_after(f"import {package}")


def test_modules_with_petastorm_names_load_no_framework() -> None:
    of_a_framework = {"petastorm.pytorch", "petastorm.tf_utils"}
    names = [name.replace("petastorm", "mdstorm", 1) for name in PUBLIC.keys() - of_a_framework]
    assert not HEAVY & loaded_after(f"import {', '.join(names)}")


def test_writing_shards_in_spark_workers_imports_few_modules() -> None:
    """Each worker imports these modules, which takes most of the first conversion's time."""
    loaded = loaded_after("import mdstorm_backend.write.tasks")
    unneeded = ("cache", "convert", "datasets", "loaders", "order", "read", "spark", "tables")
    assert not loaded.intersection(f"mdstorm_backend.{room}" for room in unneeded)
    assert not loaded.intersection({"fsspec", "pyarrow.parquet", "rich", "urllib.request"})


@pytest.mark.newest
def test_batches_of_numbers_and_images_load_neither_pandas_nor_arrow_compute(
    tmp_path: Path,
) -> None:
    """Importing pandas takes longer than reading the first batch. Images may load the latter."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG")
    tables = {"numbers": {"n": range(20), "x": [0.5] * 20}, "images": {"image": [file.getvalue()]}}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        convert(str(tmp_path / f"{name}.parquet"), str(tmp_path / name))
    program = f"""
import sys
from mdstorm import make_batch_reader
from mdstorm.spark import make_spark_converter
def read(url, **options):
    converter = make_spark_converter({tmp_path.as_uri()!r} + url)
    print(len(list(converter.make_torch_dataloader(10, num_epochs=1, **options))))
for url in ("/numbers.parquet", "/numbers"):
    print(len(list(make_batch_reader({tmp_path.as_uri()!r} + url, num_epochs=1))))
    read(url)
assert "pyarrow.compute" not in sys.modules
for decode in (None, "image"):
    read("/images", decode=decode)
"""
    assert "pandas" not in loaded_after(program)


@pytest.mark.newest
def test_workers_over_binary_columns_load_neither_pandas_nor_arrow_compute(tmp_path: Path) -> None:
    """Their values are views of the shards."""
    with MDSWriter(out=str(tmp_path)) as writer:
        writer.write_batch(pa.table({"data": [b"one", b"another"], "n": [1, 2]}))
    program = f"""
from mdstorm_backend import StreamingDataLoader, StreamingDataset
dataset = StreamingDataset(local={str(tmp_path)!r}, batch_size=1)
assert len(list(StreamingDataLoader(dataset, batch_size=1, num_workers=1))) == 2
"""
    assert not {"pandas", "pyarrow.compute"} & loaded_after(program)
