"""Classes that users make subclasses of leave them all names but Petastorm's and a prefix."""

import dis
import importlib
import inspect

import pytest

#: Names with an underscore that Petastorm 0.13.1 gives its classes, too.
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
    """Return the names with an underscore that a class, or a method of it, gives."""
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
def test_private_names_are_petastorms_or_have_the_prefix(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    class_ = getattr(importlib.import_module(f"mdstorm.{module}"), attribute)
    ours = names_of(class_) - {*_PETASTORMS[name].split()} - _OTHERS
    assert [one for one in sorted(ours) if not one.startswith("_mdstorm_")] == []
