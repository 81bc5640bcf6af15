"""The examples in the docstrings of public names run, and give what they say.

`spark` is there already. What they write below ``/tmp`` goes into the test's own directory.
"""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

MODULES = [
    *("mdstorm", "mdstorm.etl.dataset_metadata", "mdstorm.ngram", "mdstorm.predicates"),
    *("mdstorm.pytorch", "mdstorm.reader", "mdstorm.spark", "mdstorm.tf_utils"),
    *("mdstorm.transform", "mdstorm.unischema", "mdstorm.weighted_sampling_reader"),
    *("mdstorm_backend", "mdstorm_migrate"),
]


def examples() -> dict[str, tuple[object, str]]:
    """Return what has examples, with its docstring, by its name, and once if exported twice."""
    found: dict[str, tuple[object, str]] = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            text = inspect.getdoc(value) or ""
            if ">>>" in text and all(value is not other for other, _ in found.values()):
                found[f"{module.__name__}.{name}"] = value, text
    return found


def test_there_are_examples() -> None:
    assert {"mdstorm.make_batch_reader", "mdstorm_backend.open_dataset"} <= examples().keys()


def failures(name: str, folder: Path, **given: object) -> str:
    """Return what the examples of a name do otherwise than they say."""
    value, text = examples()[name]
    here, there = value.__module__, name.rpartition(".")[0]
    modules = [vars(importlib.import_module(module)) for module in (here, there)]
    names = {**modules[0], **modules[1], **given}
    text = text.replace("file:///tmp/", f"{folder.as_uri()}/").replace('"/tmp/', f'"{folder}/')
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    return "".join(said)


def names(with_spark: bool) -> list[str]:
    uses = re.compile(r"^(?:>>>|\.\.\.).*\bspark[.,]", re.M)
    return [name for name, (_, t) in examples().items() if bool(uses.search(t)) is with_spark]


@pytest.mark.parametrize("name", names(with_spark=False))
def test_examples_give_what_they_say(name: str, tmp_path: Path) -> None:
    assert not failures(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", names(with_spark=True))
def test_examples_with_spark_give_what_they_say(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    assert not failures(name, tmp_path, spark=spark)
