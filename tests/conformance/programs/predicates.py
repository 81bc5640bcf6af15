"""Predicates and row-group selectors."""

from typing import Any

import numpy as np
from petastorm.predicates import (
    in_intersection,
    in_lambda,
    in_negate,
    in_pseudorandom_split,
    in_reduce,
    in_set,
)
from petastorm.selectors import (
    IntersectIndexSelector,
    RowGroupSelectorBase,
    SingleIndexSelector,
    UnionIndexSelector,
)
from tests.conformance.describing import error_of, warnings_of
from tests.conformance.place import Place
from tests.conformance.reading import batches, ids_of, rows


def _ids(place: Place, predicate: Any, **arguments: Any) -> list[int]:
    found = rows(place.dataset("places"), predicate=predicate, **arguments)
    return [int(row.id) for row in found]


def a_set_of_values(place: Place) -> Any:
    return _ids(place, in_set({1, 4, 77}, "id"))


def a_lambda_on_two_fields(place: Place) -> Any:
    return _ids(place, in_lambda(["id", "city"], lambda id_, city: id_ > 2 and city == "Rome"))


def a_lambda_on_an_array(place: Place) -> Any:
    return _ids(place, in_lambda(["vector"], lambda vector: vector[1] < -3))


def a_lambda_with_a_state(place: Place) -> Any:
    state = {"limit": 3}
    return _ids(place, in_lambda(["id"], lambda id_, state: id_ < state["limit"], state))


def a_lambda_sees_nulls(place: Place) -> Any:
    return _ids(place, in_lambda(["tag"], lambda tag: tag is None))


def all_and_any(place: Place) -> Any:
    parts = [in_set({1, 2, 3}, "id"), in_set({"Rome"}, "city")]
    return [_ids(place, in_reduce(parts, all)), _ids(place, in_reduce(parts, any))]


def an_intersection(place: Place) -> Any:
    return _ids(place, in_intersection([2.0, -5.0], "vector"))


def a_pseudorandom_split(place: Place) -> Any:
    return [_ids(place, in_pseudorandom_split([0.3, 0.7], part, "id")) for part in (0, 1)]


def fields_of_predicates(place: Place) -> Any:
    one, other = in_set({1}, "a"), in_lambda(["b", "c"], lambda b, c: True)
    found = [one, other, in_negate(other), in_reduce([one, other], all)]
    return [sorted(predicate.get_fields()) for predicate in found]


def wrong_arguments(place: Place) -> Any:
    return [
        error_of(lambda: in_lambda("id", len), "Predicate fields should be a list"),
        error_of(lambda: in_negate(len), "Predicate is nor derived from PredicateBase"),
        error_of(lambda: in_reduce([len], all), "derived from PredicateBase"),
        error_of(
            lambda: in_pseudorandom_split([0.5, 0.5], 2, "id"), "subset_index is out of range"
        ),
    ]


def a_predicate_on_a_partition(place: Place) -> Any:
    found = rows(place.dataset("cities"), predicate=in_set({"Oslo", "Bern"}, "city"))
    return [int(row.id) for row in found]


def a_predicate_with_a_transform(place: Place) -> Any:
    from petastorm import TransformSpec

    def add(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "y": np.int64(row["id"] * 10)}

    spec = TransformSpec(add, edit_fields=[("y", np.int64, (), False)], removed_fields=["vector"])
    return rows(place.dataset("places"), predicate=in_set({2, 3}, "id"), transform_spec=spec)


def columns_in_two_lambdas(place: Place) -> Any:
    parts = [in_lambda(["x"], lambda x: x > 1), in_lambda(["id"], lambda id_: id_ < 8)]
    predicate = in_reduce(parts, lambda found: found[0] & found[1])
    found = batches(place.numbers(), predicate=predicate)
    return [[int(id_) for id_ in batch.id] for batch in found]


def types_after_a_predicate_on_columns(place: Place) -> Any:
    predicate = in_lambda(["id"], lambda id_: id_ != 1)
    return [str(batch.id.dtype) for batch in batches(place.numbers(), predicate=predicate)]


def a_set_on_columns(place: Place) -> Any:
    url = place.numbers()
    return error_of(lambda: ids_of(batches(url, predicate=in_set({1, 5}, "id"))))


def _selected(place: Place, selector: RowGroupSelectorBase) -> list[int]:
    return [int(row.id) for row in rows(place.dataset("places"), rowgroup_selector=selector)]


def an_index_selects_row_groups(place: Place) -> Any:
    return [
        _selected(place, SingleIndexSelector("by_id", [3])),
        _selected(place, SingleIndexSelector("by_id", [0, 5])),
        _selected(place, SingleIndexSelector("by_city", ["Oslo"])),
        _selected(place, SingleIndexSelector("has_tag", [])),
    ]


def indexes_combine(place: Place) -> Any:
    parts = [SingleIndexSelector("by_id", [0, 2]), SingleIndexSelector("by_city", ["Rome"])]
    return [
        _selected(place, IntersectIndexSelector(parts)),
        _selected(place, UnionIndexSelector(parts)),
    ]


def names_of_indexes(place: Place) -> Any:
    selector = SingleIndexSelector("by_id", [0])
    return [list(selector.get_index_names()), issubclass(SingleIndexSelector, RowGroupSelectorBase)]


def an_unknown_index(place: Place) -> Any:
    return error_of(
        lambda: _selected(place, SingleIndexSelector("nothing", [0])),
        "Some of required indexes",
    )


def an_unknown_value(place: Place) -> Any:
    selector = SingleIndexSelector("by_id", [77])
    return [
        _selected(place, selector),
        warnings_of(lambda: _selected(place, selector), "No matching data is available"),
    ]


def a_dataset_without_indexes(place: Place) -> Any:
    url, selector = place.dataset("codecs"), SingleIndexSelector("by_id", [0])
    return error_of(lambda: rows(url, rowgroup_selector=selector))
