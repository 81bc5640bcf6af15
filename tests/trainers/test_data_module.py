"""What Lightning's data module takes, and the loaders that it makes."""

from typing import Any

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.programs.support import converter_of

from mdstorm.errors import ArgumentTypeError
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def converter(url: str) -> SparkDatasetConverter:
    return converter_of(url)


@pytest.fixture(scope="module")
def make() -> Any:
    lightning = pytest.importorskip("mdstorm.lightning")
    return lightning.StreamingDataModule


def test_an_endless_loader_is_refused_with_the_way_out(
    converter: SparkDatasetConverter, make: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="max_steps"):
        make(train=converter, num_epochs=None)
    with pytest.raises(InvalidArgumentError, match="max_steps"):
        make(val=converter, evaluation={"num_epochs": None})


def test_only_converters_are_taken(converter: SparkDatasetConverter, make: Any) -> None:
    loader = converter.make_torch_dataloader(num_epochs=1)
    with pytest.raises(ArgumentTypeError, match=r"trainer\.fit\(model, loader\)"):
        make(train=loader)


def test_it_shows_the_converter_of_each_split_and_then_its_loader(
    converter: SparkDatasetConverter, make: Any
) -> None:
    module = make(train=converter, val=converter, batch_size=100)
    assert repr(module) == f"StreamingDataModule(train={converter!r}, val={converter!r})"
    loader = module.train_dataloader()
    assert repr(module) == f"StreamingDataModule(train={loader!r}, val={converter!r})"
    assert module._repr_html_().count("<tr>") == 2


def test_evaluation_reads_in_stored_order_with_arguments_of_its_own(
    converter: SparkDatasetConverter, make: Any
) -> None:
    module = make(train=converter, val=converter, batch_size=100, evaluation={"batch_size": 500})
    validated = [batch["number"].tolist() for batch in module.val_dataloader()]
    assert [len(batch) for batch in validated] == [500, 500, ROWS - 1000]
    assert [row for batch in validated for row in batch] == list(range(ROWS))
    assert module.train_dataloader().batch_size == 100


def test_explicit_shards_go_before_automatic_shares(
    converter: SparkDatasetConverter, make: Any
) -> None:
    module = make(train=converter, batch_size=100, cur_shard=1, shard_count=2)
    rows = [row for batch in module.train_dataloader() for row in batch["number"].tolist()]
    assert sorted(rows) == list(range(ROWS // 2 + 1, ROWS))
