"""The one line that says that a loop goes on for ever."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import converter_of

from mdstorm.spark import SparkDatasetConverter


@pytest.fixture
def many(tmp_path: Path) -> SparkDatasetConverter:
    return converter_of(tmp_path / "many", {"n": range(400)}, {"n": "long"})


@pytest.fixture(params=["torch", "tf"])
def loader(request: Any, many: SparkDatasetConverter) -> Any:
    if request.param == "torch":
        return many.make_torch_dataloader(batch_size=100)
    return many.make_tf_dataset(batch_size=100, prefetch=0)


def test_it_comes_once_after_the_first_epoch(loader: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        list(islice(loader, 12))
    (record,) = (r for r in caplog.records if r.name.startswith("mdstorm"))
    assert "pass num_epochs=1 for one epoch" in record.getMessage()


@pytest.mark.parametrize("arguments", [{}, {"order": "elastic"}])
def test_it_does_not_come_before(
    many: SparkDatasetConverter, arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    loader = many.make_torch_dataloader(batch_size=100, **arguments)
    list(islice(loader, 4))
    assert not caplog.records
    list(islice(loader, 5))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_it_does_not_come_where_epochs_are_counted(
    many: SparkDatasetConverter, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(list(many.make_torch_dataloader(100, num_epochs=3, order=order))) == 12
    assert not caplog.records


def test_it_does_not_come_ahead_of_use(
    many: SparkDatasetConverter, caplog: pytest.LogCaptureFixture
) -> None:
    loader = many.make_tf_dataset(batch_size=100)  # TensorFlow takes more than is asked for
    list(islice(loader, 4))
    assert not caplog.records
    list(islice(loader, 5))
    assert len(caplog.records) == 1
