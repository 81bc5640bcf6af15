"""A state can be resumed only with the filters, predicate and function used when it was taken."""

import os
import string
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.kit.small_datasets import write_dataset

from mdstorm import make_batch_reader
from mdstorm import predicates as by
from mdstorm._selection import described_predicate
from mdstorm.spark import SparkDatasetConverter
from mdstorm.transform import TransformSpec
from mdstorm_backend.errors import StateMismatchError

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    columns = {"id": np.arange(1_000), "x": np.arange(1_000) * 0.5}
    fields = {"id": "long", "x": "double"}
    dataset = write_dataset(
        tmp_path_factory.mktemp("selections") / "data", columns, fields, shard_size=2_000
    )
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


def even(number: Any) -> Any:
    return number % 2 == 0


def odd(number: Any) -> Any:
    return number % 2 == 1


def same(frame: Any) -> Any:
    return frame


def doubled(frame: Any) -> Any:
    return frame.assign(x=frame["x"] * 2)


class Low(by.PredicateBase):
    def __init__(self, test: Callable[[Any], Any]) -> None:
        self.test = test

    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: Any) -> Any:
        return self.test(values["id"])


class Below(by.PredicateBase):
    """A predicate with a threshold and an attribute that has no textual form."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.other = object()

    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: Any) -> Any:
        return values["id"] < self.limit


class Between:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, number: Any) -> Any:
        return number < self.limit


def less(limit: int, id: Any) -> Any:
    return id < limit


def lower(id: Any, *, limit: int) -> Any:
    return id < limit


def below(limit: int) -> Callable[[Any], Any]:
    return lambda id: id < limit


def among(values: Any) -> Callable[[Any], Any]:
    return lambda id: any(id == value for value in values)


def below_global(limit: int) -> Callable[[Any], Any]:
    """Return a function as defined in a notebook, where variables are global."""
    variables = {"limit": limit}
    exec("def test(id):\n    return id < limit", variables)
    found: Callable[[Any], Any] = variables["test"]  # type: ignore[assignment]
    return found


def commented(number: int) -> Callable[[Any], Any]:
    """Return a function whose docstring and comment contain `number`."""
    variables: dict[str, Any] = {}
    exec(
        f"def test(id):\n    'Docstring {number}'\n    # comment {number}\n    return id < 600",
        variables,
    )
    found: Callable[[Any], Any] = variables["test"]
    return found


def unplain(number: Any, marker: object = object()) -> Any:
    return number < 600 or marker is None


def recursive(limit: int) -> Callable[[Any], Any]:
    def test(id: Any, again: bool = True) -> Any:
        return test(id, False) if again else id < limit

    return test


def of(function: Any) -> dict[str, Any]:
    return {"predicate": by.in_lambda(["id"], function)}


SPLIT = partial(by.in_pseudorandom_split, [0.5, 0.5], predicate_field="id")
#: The arguments of a reader that saves a state, and different arguments of one that loads it.
OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"filters": [("id", "<", 600)]}, {"filters": [("id", "<", 900)]}),
    ({"filters": [("id", "<", 600)]}, {}),
    ({}, {"filters": [("id", "<", 600)]}),
    ({"predicate": by.in_set(range(500), "id")}, {"predicate": by.in_set(range(501), "id")}),
    ({"predicate": by.in_lambda(["id"], even)}, {"predicate": by.in_lambda(["id"], odd)}),
    ({"predicate": SPLIT(0)}, {"predicate": SPLIT(1)}),
    (
        {"predicate": by.in_set(range(500), "id")},
        {"predicate": by.in_negate(by.in_set(range(500), "id"))},
    ),
    (
        {"predicate": by.in_reduce([by.in_set(range(500), "id")], any)},
        {"predicate": by.in_reduce([by.in_set(range(500), "id")], all)},
    ),
    (of(lambda id, k=600: id < k), of(lambda id, k=900: id < k)),
    (of(lambda id, *, k=600: id < k), of(lambda id, *, k=900: id < k)),
    (of(lambda id: id < 600), of(lambda id: id < 900)),
    (of(lambda id: id % 3 == 2), of(lambda id: id % 2 == 3)),
    (of(lambda id: id in {7, 8}), of(lambda id: id in {7, 9})),
    (of(lambda id: any(id == n for n in (7, 8))), of(lambda id: any(id == n for n in (7, 9)))),
    (of(lambda id: any(id < n + 6 for n in (9,))), of(lambda id: any(id < n + 7 for n in (9,)))),
    (of(below(600)), of(below(900))),
    (of(among([7, 8])), of(among([7, 9]))),
    (of(among(np.array([7, 8]))), of(among(np.array([7, 9])))),
    (of(among({7: "a"})), of(among({8: "a"}))),
    (of(below_global(600)), of(below_global(900))),
    (of(partial(less, 600)), of(partial(less, 900))),
    (of(partial(lower, limit=600)), of(partial(lower, limit=900))),
    (of(Between(600)), of(Between(900))),
    (of(Between(600).__call__), of(even)),
    ({"predicate": Low(even)}, {"predicate": Low(odd)}),
    ({"predicate": Below(600)}, {"predicate": Below(900)}),
    ({"transform_spec": TransformSpec(same)}, {"transform_spec": TransformSpec(doubled)}),
    ({"transform_spec": TransformSpec(same)}, {}),
]
SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"filters": [("id", "<", 600), ("x", ">", 1.0)]},
        {"filters": [[("x", ">", 1), ("id", "<", np.int64(600))]]},
    ),
    ({"filters": [("id", "in", {7, 8, 9})]}, {"filters": [("id", "in", [9, 8, 7])]}),
    ({"predicate": by.in_set({1, 2, 3}, "id")}, {"predicate": by.in_set([3, 2, 1, 1], "id")}),
    (of(lambda id: id < 600), of(lambda id: not id >= 600)),
    (of(commented(1)), of(commented(2))),
    (of(among({7, 8})), of(among({8, 7}))),
    (of(partial(less, 600)), of(partial(less, np.int64(600)))),
    (of(unplain), of(partial(unplain))),
    (of(recursive(600)), of(recursive(600))),
    ({"predicate": Low(even)}, {"predicate": Low(even)}),
    ({"predicate": Below(600)}, {"predicate": Below(600.0)}),
    (
        {"transform_spec": TransformSpec(partial(doubled))},
        {"transform_spec": TransformSpec(doubled)},
    ),
]
in_either_order = pytest.mark.parametrize("order", ["exact", "elastic"])


def load(converter: SparkDatasetConverter, order: str, there: Any, here: Any) -> None:
    loader = converter.make_torch_dataloader(2, num_epochs=1, order=order, **there)
    assert len(list(islice(loader, 1))) == 1
    state = loader.state_dict()
    other = converter.make_torch_dataloader(2, num_epochs=1, order=order, **here)
    other.load_state_dict(state)


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize(("there", "here"), OTHER, ids=range(len(OTHER)))
def test_state_for_a_different_selection_raises_error(
    converter: SparkDatasetConverter, order: str, there: Any, here: Any
) -> None:
    with pytest.raises(StateMismatchError, match=r"(filters|predicate|transform|dataset): "):
        load(converter, order, there, here)


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize(("there", "here"), SAME, ids=range(len(SAME)))
def test_state_for_an_equivalent_selection_resumes(
    converter: SparkDatasetConverter, order: str, there: Any, here: Any
) -> None:
    load(converter, order, there, here)


def test_selection_mismatch_error_names_both_selections(
    converter: SparkDatasetConverter,
) -> None:
    message = r"filters: 'id < 600' there, 'id < 900' here"
    with pytest.raises(StateMismatchError, match=message):
        load(converter, "exact", *OTHER[0])


def test_description_of_predicate_with_a_set_is_sorted_and_short() -> None:
    letters = [*string.ascii_lowercase]
    assert described_predicate(by.in_set(letters, "x")) == f"in_set({letters}, 'x')"
    texts = {described_predicate(by.in_intersection(range(n), "id")) for n in (100, 101)}
    assert len(texts) == 2
    assert max(map(len, texts)) < 300


PROGRAM = """
from mdstorm import make_batch_reader
from mdstorm import predicates as by
from mdstorm._selection import described_predicate

limit, words = 3, {"b", "a", "c"}

class Own(by.PredicateBase):
    def __init__(self):
        self.kinds, self.thing = frozenset("xyz"), object()
    def get_fields(self):
        return {"id"}
    def do_include(self, values):
        return values["id"] in {"q", "r", "s"}

def chosen(id, kept=frozenset("klm")):
    return id in words or id in {"d", "e"} or id in kept or id < limit

print(described_predicate(by.in_lambda(["id"], chosen)))
two = [Own(), by.in_set(["h", "g", "f"], "id")]
print(described_predicate(by.in_reduce(two, lambda found: found[0])))
"""


@pytest.mark.long
def test_predicate_description_is_the_same_in_every_process() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert texts == {
        "in_lambda(['id'], chosen using ['d', 'e'], kept=['k', 'l', 'm'], limit=3, "
        "words=['a', 'b', 'c'], None)\n"
        "in_reduce([Own using kinds=['x', 'y', 'z'], 'id', ['q', 'r', 's'], "
        "in_set(['f', 'g', 'h'], 'id')], <lambda> using 0)\n"
    }


def test_state_of_table_that_was_appended_to_names_the_version(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(100), pa.int64())})
    write_deltalake(str(tmp_path), table)
    with make_batch_reader(tmp_path.as_uri(), num_epochs=1) as reader:
        next(reader)
        state = reader.state_dict()
    write_deltalake(str(tmp_path), table, mode="append")
    with (
        make_batch_reader(tmp_path.as_uri(), num_epochs=1) as reader,
        pytest.raises(StateMismatchError, match=r"Version 1 of the table .*pass version="),
    ):
        reader.load_state_dict(state)
    with make_batch_reader(tmp_path.as_uri(), num_epochs=1, version=0) as reader:
        reader.load_state_dict(state)


def test_state_loads_into_parquet_copy_with_other_times(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": pa.array(range(100), pa.int64())}), tmp_path / "a", row_group_size=10
    )
    options: dict[str, Any] = {"num_epochs": 1, "shuffle_row_groups": False}
    with make_batch_reader(tmp_path.as_uri(), **options) as reader:
        next(reader)
        state = reader.state_dict()
        expected = [batch.id.tolist() for batch in reader]
    os.utime(tmp_path / "a", ns=(1, 1))
    with make_batch_reader(tmp_path.as_uri(), **options) as reader:
        reader.load_state_dict(state)
        assert [batch.id.tolist() for batch in reader] == expected
