"""`install_as_petastorm` in one process."""

import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from unittest import mock

import pytest
from tests.installed import installed_as_petastorm

import mdstorm
import mdstorm.errors
import mdstorm.spark.spark_dataset_converter
from mdstorm._petastorm_names import ABSENT
from mdstorm.errors import MissingAttributeError, MissingModuleError, PetastormImportedError


@pytest.fixture
def installed() -> Iterator[None]:
    with installed_as_petastorm():
        yield


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_modules_are_those_of_mdstorm(self) -> None:
        import petastorm.spark as ps
        from petastorm.spark import spark_dataset_converter
        from petastorm.spark.spark_dataset_converter import SparkDatasetConverter

        assert ps is mdstorm.spark
        assert spark_dataset_converter is mdstorm.spark.spark_dataset_converter
        assert SparkDatasetConverter is mdstorm.spark.SparkDatasetConverter

    def test_names_of_the_package_are_those_of_mdstorm(self) -> None:
        import petastorm
        from petastorm import TransformSpec

        assert TransformSpec is mdstorm.TransformSpec
        assert petastorm.errors is mdstorm.errors
        with pytest.raises(AttributeError, match="module 'petastorm' has no attribute 'nothing'"):
            _ = petastorm.nothing

    def test_a_star_brings_the_public_names(self) -> None:
        names: dict[str, object] = {}
        exec("from petastorm import *", names)
        assert names["make_batch_reader"] is mdstorm.make_batch_reader
        assert {*mdstorm.__all__} <= {*names}

    def test_the_version_is_that_of_the_api(self) -> None:
        import petastorm

        assert petastorm.__version__ == "0.13.1"
        assert petastorm.__name__ == "petastorm"
        assert mdstorm.__version__ != petastorm.__version__

    def test_reloading_reloads_the_one_module(self) -> None:
        import petastorm.etl.petastorm_generate_metadata as ours  # one that no other test patches

        before = ours.main
        assert importlib.reload(ours) is sys.modules["mdstorm.etl.petastorm_generate_metadata"]
        assert ours.main is not before

    def test_patches_reach_mdstorm_and_end(self) -> None:
        with (
            mock.patch("petastorm.transform.edit_field", 1),
            mock.patch("petastorm.TransformSpec", 2),
        ):
            assert mdstorm.transform.edit_field == 1
            assert mdstorm.TransformSpec == 2
        assert callable(mdstorm.transform.edit_field)
        assert mdstorm.TransformSpec is mdstorm.transform.TransformSpec

    def test_specs_are_found_without_an_import(self) -> None:
        assert importlib.util.find_spec("petastorm") is not None
        assert importlib.util.find_spec("petastorm.spark.spark_dataset_converter") is not None
        assert importlib.util.find_spec("petastorm.hdfs") is None
        assert importlib.util.find_spec("mdstorm.hdfs") is None

    @pytest.mark.parametrize(
        ("statement", "missing"),
        [
            ("import petastorm.hdfs", "petastorm.hdfs"),
            ("from petastorm.hdfs.namenode import HdfsNamenodeResolver", "petastorm.hdfs"),
            ("import petastorm.workers_pool.ventilator as v", "petastorm.workers_pool"),
            ("import mdstorm.etl.legacy", "mdstorm.etl.legacy"),
            ("from mdstorm.workers_pool.thread_pool import ThreadPool", "mdstorm.workers_pool"),
        ],
    )
    def test_missing_modules_are_named_with_their_section(
        self, statement: str, missing: str
    ) -> None:
        with pytest.raises(MissingModuleError, match=f"'{re.escape(missing)}'") as caught:
            exec(statement)
        assert isinstance(caught.value, ModuleNotFoundError)
        assert caught.value.name == missing
        assert f"docs/differences.md#{ABSENT.names[missing.partition('.')[2]]} " in str(
            caught.value
        )

    def test_an_unknown_module_is_named_with_the_page(self) -> None:
        with pytest.raises(MissingModuleError, match=r"docs/differences\.md of mdstorm"):
            exec("import petastorm.nothing")

    @pytest.mark.parametrize("package", ["petastorm", "mdstorm"])
    @pytest.mark.parametrize(
        "statement",
        [
            "from {0} import hdfs",
            "from {0}.reader import PyDictReaderWorker",
            "from {0}.etl.dataset_metadata import _init_spark",
        ],
    )
    def test_missing_names_are_import_errors_with_their_section(
        self, package: str, statement: str
    ) -> None:
        with pytest.raises(ImportError, match=r"docs/differences\.md#[\w-]+ says what replaces it"):
            exec(statement.format(package))

    def test_a_missing_attribute_can_be_asked_for(self) -> None:
        import petastorm
        from petastorm import reader

        assert not hasattr(reader, "PyDictReaderWorker")
        assert not hasattr(petastorm, "hdfs")
        with pytest.raises(MissingAttributeError, match="workers-and-their-queues"):
            _ = reader.PyDictReaderWorker

    def test_pickles_that_name_petastorm_load(self) -> None:
        old = b"cpetastorm.spark.spark_dataset_converter\nSparkDatasetConverter\n."
        assert pickle.loads(old) is mdstorm.spark.SparkDatasetConverter  # noqa: S301
        error = b"cpetastorm.errors\nNoDataAvailableError\n(S'none'\ntR."
        assert isinstance(pickle.loads(error), mdstorm.NoDataAvailableError)  # noqa: S301


def test_the_real_petastorm_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = types.ModuleType("petastorm")
    real.__file__ = "/site-packages/petastorm/__init__.py"
    monkeypatch.setitem(sys.modules, "petastorm", real)
    finders = list(sys.meta_path)
    with pytest.raises(PetastormImportedError, match="already imported, from '/site-packages"):
        mdstorm.install_as_petastorm()
    assert sys.modules["petastorm"] is real
    assert sys.meta_path == finders
    assert issubclass(PetastormImportedError, ImportError)


def test_without_it_there_is_no_petastorm() -> None:
    # Not in this process, where Spark may have put the stand-in on the search path.
    program = "import importlib.util, mdstorm; assert importlib.util.find_spec('petastorm') is None"
    subprocess.run([sys.executable, "-I", "-c", program], check=True, timeout=60)
