"""`install_as_petastorm` within one process: `petastorm` imports and the `petastorm` logger."""

import importlib
import importlib.util
import logging
import pickle
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from unittest import mock

import pytest
from tests.kit.installed import installed_as_petastorm

import mdstorm
import mdstorm.errors
import mdstorm.spark.spark_dataset_converter
from mdstorm.errors import MissingAttributeError, MissingModuleError, PetastormImportedError

#: Sections of docs/differences.md.
HDFS, WORKERS = "name-nodes-of-hdfs", "workers-and-their-queues"
LEGACY = "unpicklers"


@pytest.fixture
def installed() -> Iterator[None]:
    before = logging.getLogger("petastorm").level
    with installed_as_petastorm():
        yield
    logging.getLogger("petastorm").setLevel(before)


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_imported_petastorm_modules_are_mdstorm_modules(self) -> None:
        import petastorm.spark as ps
        from petastorm.spark import spark_dataset_converter
        from petastorm.spark.spark_dataset_converter import SparkDatasetConverter

        assert ps is mdstorm.spark
        assert spark_dataset_converter is mdstorm.spark.spark_dataset_converter
        assert SparkDatasetConverter is mdstorm.spark.SparkDatasetConverter

    def test_petastorm_package_attributes_are_mdstorm_objects(self) -> None:
        import petastorm
        from petastorm import TransformSpec

        assert TransformSpec is mdstorm.TransformSpec
        assert petastorm.errors is mdstorm.errors
        with pytest.raises(AttributeError, match="module 'petastorm' has no attribute 'nothing'"):
            _ = petastorm.nothing
        names: dict[str, object] = {}
        exec("from petastorm import *", names)
        assert names["make_batch_reader"] is mdstorm.make_batch_reader
        assert {*mdstorm.__all__} <= {*names}
        assert petastorm.__version__ == "0.13.1"
        assert petastorm.__name__ == "petastorm"
        assert mdstorm.__version__ != petastorm.__version__

    def test_reloading_petastorm_module_reloads_mdstorm_module(self) -> None:
        import petastorm.etl.petastorm_generate_metadata as ours  # no other test patches this

        before = ours.main
        assert importlib.reload(ours) is sys.modules["mdstorm.etl.petastorm_generate_metadata"]
        assert ours.main is not before

    def test_mock_patch_on_petastorm_also_patches_mdstorm_and_is_undone(self) -> None:
        with (
            mock.patch("petastorm.transform.edit_field", 1),
            mock.patch("petastorm.TransformSpec", 2),
        ):
            assert mdstorm.transform.edit_field == 1
            assert mdstorm.TransformSpec == 2
        assert callable(mdstorm.transform.edit_field)
        assert mdstorm.TransformSpec is mdstorm.transform.TransformSpec

    def test_find_spec_finds_only_existing_petastorm_modules(self) -> None:
        assert importlib.util.find_spec("petastorm") is not None
        assert importlib.util.find_spec("petastorm.spark.spark_dataset_converter") is not None
        assert importlib.util.find_spec("petastorm.hdfs") is None
        assert importlib.util.find_spec("mdstorm.hdfs") is None

    @pytest.mark.parametrize(
        ("statement", "missing", "section"),
        [
            ("import petastorm.hdfs", "petastorm.hdfs", HDFS),
            ("from petastorm.hdfs.namenode import HdfsNamenodeResolver", "petastorm.hdfs", HDFS),
            ("import petastorm.workers_pool.ventilator as v", "petastorm.workers_pool", WORKERS),
            ("import mdstorm.etl.legacy", "mdstorm.etl.legacy", LEGACY),
            (
                "from mdstorm.workers_pool.thread_pool import ThreadPool",
                "mdstorm.workers_pool",
                WORKERS,
            ),
        ],
    )
    def test_missing_module_error_names_docs_section(
        self, statement: str, missing: str, section: str
    ) -> None:
        with pytest.raises(MissingModuleError, match=f"'{re.escape(missing)}'") as caught:
            exec(statement)
        assert isinstance(caught.value, ModuleNotFoundError)
        assert caught.value.name == missing
        assert f"docs/differences.md#{section} " in str(caught.value)
        with pytest.raises(MissingModuleError, match=r"docs/differences\.md of mdstorm"):
            exec("import petastorm.nothing")

    def test_module_that_petastorm_also_lacks_names_no_docs_section(self) -> None:
        with pytest.raises(ModuleNotFoundError) as caught:
            importlib.import_module("mdstorm.nothing")
        assert not isinstance(caught.value, MissingModuleError)

    @pytest.mark.parametrize("package", ["petastorm", "mdstorm"])
    def test_missing_name_error_names_docs_section(self, package: str) -> None:
        names = {
            "": "hdfs",
            ".reader": "PyDictReaderWorker",
            ".etl.dataset_metadata": "_init_spark",
        }
        for module, name in names.items():
            with pytest.raises(
                ImportError, match=r"docs/differences\.md#[\w-]+ describes the replacement"
            ):
                exec(f"from {package}{module} import {name}")

    def test_hasattr_is_false_for_missing_names(self) -> None:
        import petastorm
        from petastorm import reader

        assert not hasattr(reader, "PyDictReaderWorker")
        assert not hasattr(petastorm, "hdfs")
        with pytest.raises(MissingAttributeError, match="workers-and-their-queues"):
            _ = reader.PyDictReaderWorker

    def test_pickle_with_petastorm_names_loads_mdstorm_classes(self) -> None:
        old = b"cpetastorm.spark.spark_dataset_converter\nSparkDatasetConverter\n."
        assert pickle.loads(old) is mdstorm.spark.SparkDatasetConverter  # noqa: S301
        error = b"cpetastorm.errors\nNoDataAvailableError\n(S'none'\ntR."
        assert isinstance(pickle.loads(error), mdstorm.NoDataAvailableError)  # noqa: S301


def test_installed_petastorm_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = types.ModuleType("petastorm")
    real.__file__ = "/site-packages/petastorm/__init__.py"
    monkeypatch.setitem(sys.modules, "petastorm", real)
    finders = list(sys.meta_path)
    with pytest.raises(PetastormImportedError, match="already imported, from '/site-packages"):
        mdstorm.install_as_petastorm()
    assert sys.modules["petastorm"] is real
    assert sys.meta_path == finders
    assert issubclass(PetastormImportedError, ImportError)


def test_petastorm_is_not_importable_without_the_drop_in() -> None:
    # Run in a separate process, because Spark may have added the stand-in for `petastorm` to this
    # process's search path.
    program = "import importlib.util, mdstorm; assert importlib.util.find_spec('petastorm') is None"
    subprocess.run([sys.executable, "-I", "-c", program], check=True)


READER = "mdstorm.reader"
CONVERTER = "mdstorm.spark.spark_dataset_converter"
ENGINE = "mdstorm_backend.cache.space"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", [READER, CONVERTER, ENGINE])
def test_petastorm_and_mdstorm_logger_levels_apply_to_all_messages(name: str) -> None:
    assert logging.getLogger(name).isEnabledFor(logging.WARNING)
    logging.getLogger("petastorm").setLevel(logging.ERROR)
    assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
    logging.getLogger("mdstorm").setLevel(logging.CRITICAL)
    try:
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)
    finally:
        logging.getLogger("mdstorm").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", [READER, CONVERTER, ENGINE])
def test_petastorm_logger_handlers_get_each_record_once(name: str) -> None:
    mdstorm.install_as_petastorm()  # a second call does nothing
    heard: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    for logger in (logging.getLogger("petastorm"), logging.getLogger()):
        logger.addHandler(handler)
    try:
        logging.getLogger(name).warning("said")
        assert [record.getMessage() for record in heard] == ["said", "said"]
        logging.getLogger("petastorm").propagate = False
        logging.getLogger(name).warning("said to one")
        assert len(heard) == 3
    finally:
        logging.getLogger("petastorm").propagate = True
        for logger in (logging.getLogger("petastorm"), logging.getLogger()):
            logger.removeHandler(handler)
