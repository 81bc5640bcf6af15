"""One set of reader arguments, wherever they are named; and what an unknown one is answered."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from mdstorm._readers.arguments import AddedReaderKeywords, ReaderArguments, ReaderKeywords
from mdstorm.reader import make_batch_reader, make_reader
from mdstorm.spark import SparkDatasetConverter

pytestmark = pytest.mark.newest

READERS = pytest.mark.parametrize("make", [make_reader, make_batch_reader])
CONVERTER = SparkDatasetConverter("file:///nowhere", [], 0)

DEFAULTS = {field.name: field.default for field in fields(ReaderArguments)}
#: Those that the methods of the converter have themselves.
OF_METHODS = {"num_epochs", "workers_count"}
#: Those that a converter knows itself.
OF_TABLES = {"version", "timestamp"}
#: Those of loaders that readers do not have.
OF_LOADERS = {"shuffling_queue_capacity", "transform_whole_shards"}


def annotations(class_: type) -> dict[str, str]:
    return {
        name: getattr(type_, "__forward_arg__", type_)
        for name, type_ in class_.__annotations__.items()
    }


def test_the_keywords_are_the_fields_and_have_their_types() -> None:
    expected = annotations(ReaderArguments)
    for name in (*OF_METHODS, *OF_TABLES, "shuffling_queue_capacity"):
        del expected[name]
    assert annotations(ReaderKeywords) == expected
    assert ReaderKeywords.__required_keys__ == frozenset()


@READERS
def test_the_signatures_have_every_field_with_its_default(make: Callable[..., Any]) -> None:
    parameters = dict(inspect.signature(make).parameters)
    del parameters[next(iter(parameters))]
    parameters.pop("pyarrow_serialize", None)
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults == {n: d for n, d in DEFAULTS.items() if n not in OF_LOADERS}


@READERS
def test_arguments_beyond_petastorm_are_keywords(make: Callable[..., Any]) -> None:
    parameters = inspect.signature(make).parameters.values()
    keywords = {p.name: p.annotation for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords.keys() == AddedReaderKeywords.__annotations__.keys()
    assert keywords == {name: annotations(ReaderArguments)[name] for name in keywords}


@READERS
def test_the_signatures_hand_over_every_argument_as_it_is_given(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Any] = {}
    given = {name: object() for name in DEFAULTS if name not in OF_LOADERS}

    def noted(url: str, *, batched: bool, **arguments: Any) -> None:
        found.update(arguments, url=url)

    monkeypatch.setattr("mdstorm.reader._open_reader", noted)
    make("file:///nowhere", **given)
    found.pop("pyarrow_serialize", None)
    assert found == {"url": "file:///nowhere", **given}


def test_arguments_of_the_other_method_are_not_offered() -> None:
    with pytest.raises(TypeError, match="'prefetch'") as caught:
        CONVERTER.make_torch_dataloader(prefetch=2)  # type: ignore[call-arg]
    assert "data_loader_fn" in str(caught.value)
