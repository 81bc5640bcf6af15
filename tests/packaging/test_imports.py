"""Importing the packages is cheap: frameworks and cloud SDKs wait until something needs them."""

import subprocess
import sys

import pytest
from tests.compat.test_public_names import MODULES

HEAVY = {
    *("adlfs", "databricks", "deltalake", "gcsfs", "pandas", "pyiceberg", "pyspark", "s3fs"),
    *("tensorflow", "torch"),
}


def heavy_modules_after(program: str) -> set[str]:
    """Run a program in a process of its own: this one has imported the frameworks already."""
    report = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{report}; {program}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("loaded:")[2].split()
    assert "sys" in loaded
    return HEAVY.intersection(name.partition(".")[0] for name in loaded)


@pytest.mark.parametrize("package", ["mdstorm", "mdstorm_backend", "mdstorm_migrate"])
def test_import_loads_no_framework(package: str) -> None:
    assert heavy_modules_after(f"import {package}") == set()


def test_the_modules_of_petastorm_load_no_framework() -> None:
    of_a_framework = {".pytorch", ".tf_utils"}
    names = [f"mdstorm{module}" for module in MODULES if module not in of_a_framework]
    assert heavy_modules_after(f"import {', '.join(names)}") == set()


def test_workers_of_spark_import_little_to_write_shards() -> None:
    """Each of them imports it anew: that is most of what the first conversion takes of theirs."""
    program = "import sys, mdstorm_backend.write.tasks; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = {*done.stdout.decode().split()}
    unneeded = ("cache", "convert", "datasets", "loaders", "order", "read", "spark", "tables")
    assert not loaded.intersection(f"mdstorm_backend.{room}" for room in unneeded)
    assert not loaded.intersection({"fsspec", "pyarrow.parquet", "rich", "urllib.request"})
