"""Classes that users make subclasses of leave them all names but Petastorm's and a prefix."""

import dis
import importlib
import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat.readers import batch_reader, numbers, row_reader

from mdstorm.ngram import NGram
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.transform import TransformSpec

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


class Hiding:
    """Gives itself attributes of the names that people like best."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._hide()

    def _hide(self) -> None:
        words = "arguments batches columns cursor edited lock next_epoch offsets options order"
        words += " parts passes queue recorders rows starts tensors threads untouched version"
        for word in words.split():
            setattr(self, f"_{word}", "mine")


@pytest.mark.parametrize("class_", [DataLoader, BatchedDataLoader])
@pytest.mark.parametrize("capacity", [0, 3])
def test_a_loader_works_whose_subclass_has_attributes_of_its_own(
    ten: str, class_: Any, capacity: int
) -> None:
    class Mine(Hiding, class_):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            self._queue = deque(maxlen=2)
            for batch in super().__iter__():
                self._queue.append(batch)
                yield batch

    with Mine(batch_reader(ten), batch_size=4, shuffling_queue_capacity=capacity) as loader:
        found = numbers(loader)
    assert sorted(number for batch in found for number in batch) == list(range(10))
    assert len(loader._queue) == 2


def test_a_transform_and_windows_work_whose_subclasses_have_attributes_of_their_own(
    ten: str,
) -> None:
    class Spec(Hiding, TransformSpec):
        columns_of = edited = "mine"

    class Windows(Hiding, NGram):
        pass

    spec = Spec(lambda frame: frame * 2)
    found = [n for batch in batch_reader(ten, transform_spec=spec) for n in batch.number]
    assert found == list(range(0, 20, 2))
    fields = {0: ["number"], 1: ["number"]}
    windows = Windows(fields, delta_threshold=1, timestamp_field="number")
    assert len(list(row_reader(ten, schema_fields=windows))) == 7  # of row groups of 4, 4, 2
