"""The names that code written for Petastorm imports, and where it imports them from."""

import importlib
import inspect
import sys
from types import ModuleType

import pytest

import mdstorm
import mdstorm_backend
import mdstorm_migrate
from mdstorm._petastorm_names import ELSEWHERE
from mdstorm_migrate.petastorm.names import PUBLIC

#: Modules of Petastorm, and the names that programs import from them: the migration tool's table.
MODULES = {path.removeprefix("petastorm"): names for path, names in PUBLIC.items()}


@pytest.mark.parametrize("module", MODULES)
def test_names_are_where_petastorm_has_them(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm{module}")
    for name in MODULES[module]:
        assert hasattr(mirror, name)
        assert name in mirror.__all__ or name.startswith("_")


@pytest.mark.parametrize("module", ELSEWHERE)
def test_names_that_belong_elsewhere_are_found_where_petastorm_imports_them(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm.{module}")
    for name, home in ELSEWHERE[module].items():
        assert getattr(mirror, name) is getattr(importlib.import_module(f"mdstorm.{home}"), name)


def test_sub_modules_are_attributes() -> None:
    for name in {module.split(".")[1] for module in MODULES if module}:
        assert getattr(mdstorm, name) is importlib.import_module(f"mdstorm.{name}")
    with pytest.raises(AttributeError, match="module 'mdstorm' has no attribute 'make_nothing'"):
        _ = mdstorm.make_nothing


def test_completion_offers_what_is_public() -> None:
    for package in (mdstorm, mdstorm_backend, mdstorm_migrate):
        assert {*package.__all__} <= {*dir(package)}
        others = {*dir(package)} - {*package.__all__}
        # The modules of Petastorm, and those that depend on what is installed.
        assert all(inspect.ismodule(getattr(package, name)) for name in others), package


def test_the_help_of_a_loader_describes_each_argument() -> None:
    from mdstorm.spark import SparkDatasetConverter

    assert "As in" not in (SparkDatasetConverter.make_torch_dataloader.__doc__ or "")


@pytest.mark.parametrize("module", [module for module in MODULES if module.count(".") == 2])
def test_modules_of_packages_need_no_import(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, _, name = f"mdstorm{module}".rpartition(".")
    mirror, parent = importlib.import_module(f"mdstorm{module}"), importlib.import_module(package)
    monkeypatch.delattr(parent, name)  # as before the first import
    assert getattr(parent, name) is mirror
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = parent.nothing


def test_names_are_listed_where_a_mock_stands_for_a_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert "tf_utils" in dir(mdstorm)


def parameters(function: object) -> str:
    """The parameters that may be positional, as they are written."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    plain = (p.replace(annotation=p.empty) for p in found if p.kind is p.POSITIONAL_OR_KEYWORD)
    return ", ".join(map(str, plain))


def test_signatures_are_those_of_petastorm() -> None:
    from mdstorm.spark import SparkDatasetConverter as Converter
    from mdstorm.spark import make_spark_converter

    size = "parquet_row_group_size_bytes=33554432"
    assert (
        parameters(make_spark_converter) == f"df, {size}, compression_codec=None, dtype='float32'"
    )
    assert parameters(Converter.__init__) == "self, cache_dir_url, file_urls, dataset_size"
    assert parameters(Converter.make_tf_dataset) == (
        "self, batch_size=None, prefetch=None, num_epochs=None, workers_count=None, "
        "shuffling_queue_capacity=None"
    )
    assert parameters(Converter.make_torch_dataloader) == (
        "self, batch_size=32, num_epochs=None, workers_count=None, shuffling_queue_capacity=0, "
        "data_loader_fn=None"
    )
