"""Predicates and row-group selectors."""

from typing import Any

import numpy as np
from petastorm.predicates import in_lambda, in_negate, in_reduce, in_set
from petastorm.selectors import RowGroupSelectorBase, SingleIndexSelector
from tests.contract.conformance.place import Place
from tests.contract.conformance.reading import rows


def _ids(place: Place, predicate: Any, **arguments: Any) -> list[int]:
    found = rows(place.dataset("places"), predicate=predicate, **arguments)
    return [int(row.id) for row in found]


def a_lambda_on_two_fields(place: Place) -> Any:
    return _ids(place, in_lambda(["id", "city"], lambda id_, city: id_ > 2 and city == "Rome"))


def a_lambda_on_an_array(place: Place) -> Any:
    return _ids(place, in_lambda(["vector"], lambda vector: vector[1] < -3))


def a_lambda_with_a_state(place: Place) -> Any:
    state = {"limit": 3}
    return _ids(place, in_lambda(["id"], lambda id_, state: id_ < state["limit"], state))


def a_lambda_sees_nulls(place: Place) -> Any:
    return _ids(place, in_lambda(["tag"], lambda tag: tag is None))


def fields_of_predicates(place: Place) -> Any:
    one, other = in_set({1}, "a"), in_lambda(["b", "c"], lambda b, c: True)
    found = [one, other, in_negate(other), in_reduce([one, other], all)]
    return [sorted(predicate.get_fields()) for predicate in found]


def a_predicate_on_a_partition(place: Place) -> Any:
    found = rows(place.dataset("cities"), predicate=in_set({"Oslo", "Bern"}, "city"))
    return [int(row.id) for row in found]


def a_predicate_with_a_transform(place: Place) -> Any:
    from petastorm import TransformSpec

    def add(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "y": np.int64(row["id"] * 10)}

    spec = TransformSpec(add, edit_fields=[("y", np.int64, (), False)], removed_fields=["vector"])
    return rows(place.dataset("places"), predicate=in_set({2, 3}, "id"), transform_spec=spec)


def _selected(place: Place, selector: RowGroupSelectorBase) -> list[int]:
    return [int(row.id) for row in rows(place.dataset("places"), rowgroup_selector=selector)]


def an_index_selects_row_groups(place: Place) -> Any:
    return [
        _selected(place, SingleIndexSelector("by_id", [3])),
        _selected(place, SingleIndexSelector("by_id", [0, 5])),
        _selected(place, SingleIndexSelector("by_city", ["Oslo"])),
        _selected(place, SingleIndexSelector("has_tag", [])),
    ]


def names_of_indexes(place: Place) -> Any:
    selector = SingleIndexSelector("by_id", [0])
    return [list(selector.get_index_names()), issubclass(SingleIndexSelector, RowGroupSelectorBase)]
