"""Errors that the user's functions raise have a note that names the function."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm import TransformSpec, make_batch_reader, make_reader
from mdstorm.predicates import PredicateBase, in_lambda, in_negate
from mdstorm_backend.base import naming


def scale_pixels(rows: Any) -> Any:
    return rows["pixels"]


def is_bright(_id: int) -> bool:
    raise KeyError("pixels")


class Bright(PredicateBase):
    def get_fields(self) -> set[str]:
        return {"id"}

    def do_include(self, values: dict[str, Any]) -> bool:
        return bool(values["pixels"])


def notes_of(call: Callable[[], Any]) -> list[str]:
    with pytest.raises(KeyError, match="pixels") as caught:
        call()
    return list(getattr(caught.value, "__notes__", []))


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::UserWarning")  # make_reader recommends make_batch_reader
@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize("pool", ["thread", "process"])
def test_key_error_in_a_function_names_the_function(tmp_path: Path, make: Any, pool: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [0, 1]}), path)
    spec = TransformSpec(scale_pixels)
    reader = make(path.as_uri(), transform_spec=spec, reader_pool_type=pool, workers_count=1)
    with reader:
        notes = notes_of(lambda: list(reader))
    assert notes[0] == "The TransformSpec function scale_pixels raised this error."


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::UserWarning")  # make_reader recommends make_batch_reader
@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
@pytest.mark.parametrize("make", [make_batch_reader, make_reader])
@pytest.mark.parametrize("pool", ["thread", "process"])
@pytest.mark.parametrize(
    ("predicate", "name"),
    [
        (in_lambda(["id"], is_bright), "is_bright"),
        (in_negate(in_lambda(["id"], is_bright)), "is_bright"),
        (Bright(), "Bright"),
    ],
    ids=["function", "negated", "class"],
)
def test_key_error_in_a_predicate_names_the_predicate(
    predicate: PredicateBase, name: str, tmp_path: Path, make: Any, pool: str
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [0, 1]}), path)
    with make(path.as_uri(), predicate=predicate, reader_pool_type=pool, workers_count=1) as reader:
        notes = notes_of(lambda: list(reader))
    assert notes[0].startswith("The predicate ")
    assert name in notes[0]


class NoNotesError(KeyError):
    """An error as Python 3.10 raises it."""

    @property
    def add_note(self) -> Any:  # type: ignore[override]
        raise AttributeError("add_note")


def test_error_that_takes_no_notes_is_raised_unchanged() -> None:
    error = NoNotesError("pixels")
    with pytest.raises(NoNotesError) as caught, naming("function", scale_pixels):
        raise error
    assert caught.value is error
    assert not hasattr(error, "__notes__")
