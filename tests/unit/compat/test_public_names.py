"""The names that Petastorm code imports, and private names that cannot clash with users'."""

import dis
import importlib
import inspect
import logging
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.kit.programs import run_program

import mdstorm
import mdstorm_backend
import mdstorm_migrate
from mdstorm_migrate.petastorm.names import HOMES, PUBLIC, renamed

#: Petastorm's modules and the names that programs import from them, taken from the migration
#: tool's table.
MODULES = {path.removeprefix("petastorm"): names for path, names in PUBLIC.items()}


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_in_petastorms_modules(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm{module}")
    for name in MODULES[module]:
        assert hasattr(mirror, name)
        assert name in mirror.__all__ or name.startswith("_")


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_defined_in_petastorms_modules(module: str) -> None:
    """Programs compare ``type(error).__module__``, and pickles name the module and the class."""
    mirror = importlib.import_module(f"mdstorm{module}")
    for name in (one for one in MODULES[module] if not one.startswith("_")):
        value = getattr(mirror, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert (value.__module__, value.__qualname__) == (f"mdstorm{home_of(name)}", name)
            assert pickle.loads(pickle.dumps(value)) is value  # noqa: S301 - our own bytes


def home_of(name: str) -> str:
    """Return the module that defines a name; packages and `errors` repeat those of others."""
    homes = [module for module, names in MODULES.items() if name in names]
    return max(homes, key=lambda module: (module.count("."), module != ".errors"))


@pytest.mark.parametrize("module", HOMES)
def test_reexported_names_can_be_imported_from_petastorms_modules(module: str) -> None:
    mirror = importlib.import_module(renamed(module))
    for name, home in HOMES[module].items():
        assert getattr(mirror, name) is getattr(importlib.import_module(renamed(home)), name)


def test_submodules_are_attributes_of_the_package() -> None:
    for name in {module.split(".")[1] for module in MODULES if module}:
        assert getattr(mdstorm, name) is importlib.import_module(f"mdstorm.{name}")
    with pytest.raises(AttributeError, match="module 'mdstorm' has no attribute 'make_nothing'"):
        _ = mdstorm.make_nothing


def test_dir_lists_the_public_names() -> None:
    for package in (mdstorm, mdstorm_backend, mdstorm_migrate):
        assert {*package.__all__} <= {*dir(package)}
        others = {*dir(package)} - {*package.__all__}
        # The other names are Petastorm's modules and modules that depend on installed libraries.
        assert all(inspect.ismodule(getattr(package, name)) for name in others), package


def test_loader_docstring_describes_each_argument() -> None:
    from mdstorm.spark import SparkDatasetConverter

    assert "As in" not in (SparkDatasetConverter.make_torch_dataloader.__doc__ or "")


@pytest.mark.parametrize("module", [module for module in MODULES if module.count(".") == 2])
def test_submodules_are_available_without_import(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _, name = f"mdstorm{module}".rpartition(".")
    mirror, parent = importlib.import_module(f"mdstorm{module}"), importlib.import_module(package)
    monkeypatch.delattr(parent, name)  # as before the first import
    assert getattr(parent, name) is mirror
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = parent.nothing


def test_dir_lists_submodule_if_its_framework_is_mocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert "tf_utils" in dir(mdstorm)


def test_names_in_dir_can_be_read_without_optional_libraries(tmp_path: Path) -> None:
    program = """
import sys
for library in "lightning mlflow pyspark pytorch_lightning tensorflow torch transformers".split():
    sys.modules[library] = None
import mdstorm
for name in dir(mdstorm):  # as help(mdstorm) does
    getattr(mdstorm, name)
"""
    run_program(program, cwd=tmp_path)


def parameters(function: object) -> str:
    """Return the parameters that may be positional, without annotations."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    plain = (p.replace(annotation=p.empty) for p in found if p.kind is p.POSITIONAL_OR_KEYWORD)
    return ", ".join(map(str, plain))


def test_signatures_match_petastorms() -> None:
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


#: Underscore-prefixed names that Petastorm 0.13.1 also gives its classes.
_PETASTORMS: dict[str, str] = {
    "pytorch.LoaderBase": "_error _in_iter _iter_impl",
    "pytorch.DataLoader": "_batch_acc _error _in_iter _iter_impl _shuffling_buffer _yield_batches",
    "pytorch.BatchedDataLoader": "_error _in_iter _iter_impl",
    "pytorch.InMemBatchedDataLoader": "_batch_size _buffer _keys _num_epochs _seed _shuffle",
    "reader.Reader": "",
    "transform.TransformSpec": "",
    "codecs.DataframeColumnCodec": "",
    "codecs.ScalarCodec": "_spark_type",
    "codecs.NdarrayCodec": "",
    "codecs.CompressedNdarrayCodec": "",
    "codecs.CompressedImageCodec": "_image_codec _quality",
    "unischema.Unischema": "_fields _get_namedtuple _name",
    "unischema.UnischemaField": "_asdict _field_defaults _fields _make _replace",
    "predicates.PredicateBase": "",
    "predicates.in_set": "_inclusion_values _predicate_field",
    "predicates.in_intersection": "_inclusion_values _predicate_field",
    "predicates.in_lambda": "_predicate_fields _predicate_func _state_arg",
    "predicates.in_negate": "_predicate",
    "predicates.in_reduce": "_predicate_list _reduce_func",
    "predicates.in_pseudorandom_split": "_bucket_high _bucket_low _predicate_field",
    "ngram.NGram": "_delta_threshold _fields _timestamp_field",
    "spark.spark_dataset_converter.SparkDatasetConverter": "",
    "weighted_sampling_reader.WeightedSamplingReader": "_cum_prob _readers",
    "cache.CacheBase": "",
    "local_disk_cache.LocalDiskCache": "",
    "selectors.RowGroupSelectorBase": "",
    "selectors.SingleIndexSelector": "_index_name _values_to_select",
    "selectors.IntersectIndexSelector": "_single_index_selectors",
    "selectors.UnionIndexSelector": "_single_index_selectors",
    "etl.RowGroupIndexerBase": "",
    "etl.rowgroup_indexers.SingleFieldIndexer": "_column_name _index_data _index_name",
    "etl.rowgroup_indexers.FieldNotNullIndexer": "_column_name _index_data _index_name",
    "reader_impl.shuffling_buffer.RandomShufflingBuffer": "_done_adding _items",
}
#: Names that Python and IPython look up.
_OTHERS = {"_abc_impl", "_repr_html_"}


def names_of(class_: type) -> set[str]:
    """Return the underscore-prefixed names that a class or its methods define."""
    found: set[str] = set()
    for base in class_.__mro__:
        if not base.__module__.startswith("mdstorm"):
            continue
        found |= {*vars(base), *inspect.get_annotations(base)}
        for value in vars(base).values():
            method = inspect.unwrap(getattr(value, "fget", None) or value)
            if inspect.isfunction(method):
                code = dis.get_instructions(method)
                found |= {one.argval for one in code if one.opname == "STORE_ATTR"}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


@pytest.mark.parametrize("name", _PETASTORMS)
def test_private_names_are_from_petastorm_or_have_mdstorm_prefix(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    class_ = getattr(importlib.import_module(f"mdstorm.{module}"), attribute)
    ours = names_of(class_) - {*_PETASTORMS[name].split()} - _OTHERS
    assert [one for one in sorted(ours) if not one.startswith("_mdstorm_")] == []


def test_mdstorm_logger_level_applies_to_mdstorm_backend(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = logging.getLogger("mdstorm_backend.cache.space")
    caplog.set_level(logging.DEBUG, logger="mdstorm")
    engine.debug("said")
    assert caplog.messages == ["said"]  # the root logger's handlers receive the message once
    caplog.set_level(logging.ERROR, logger="mdstorm")
    assert not engine.isEnabledFor(logging.WARNING)
    heard = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]
    logging.getLogger("mdstorm").addHandler(handler)
    try:
        engine.error("of the engine")
    finally:
        logging.getLogger("mdstorm").removeHandler(handler)
    assert [record.getMessage() for record in heard] == ["of the engine"]
