"""Statistics in MLflow, TensorBoard and OpenTelemetry, read back by their own clients."""

import gc
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.programs.support import converter_of

from mdstorm.errors import ArgumentTypeError
from mdstorm.monitoring import log_to_mlflow, log_to_tensorboard, observe_with_opentelemetry

BATCHES = 11


@pytest.fixture
def loader(url: str) -> Any:
    """A loader that has gone through one pass."""
    made = converter_of(url).make_torch_dataloader(batch_size=100, num_epochs=1)
    assert len(list(made)) == BATCHES
    return made


def test_mlflow_has_the_metrics_of_each_step(
    loader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the skinny client has no database
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "false")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    first = loader.statistics()
    with mlflow.start_run() as run:
        log_to_mlflow(loader, step=10)
        list(loader)
        log_to_mlflow(loader, step=20)
        log_to_mlflow(loader.statistics() - first, step=20, prefix="epoch/")
    client = mlflow.MlflowClient()

    def history(name: str) -> list[tuple[int, float]]:
        return [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]

    assert history("loader/rows") == [(10, ROWS), (20, 2 * ROWS)]
    assert history("epoch/batches") == [(20, BATCHES)]
    assert history("loader/waited_seconds")[0][1] == pytest.approx(first.waited_seconds)


def test_tensorboard_reads_the_scalars_back(
    loader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    # So that TensorBoard does without TensorFlow, which takes seconds to import.
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", ModuleType("notf"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        log_to_tensorboard(loader, writer, step=7)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (batches,) = events.Scalars("loader/batches")
    assert (batches.step, batches.value) == (7, BATCHES)
    (waited,) = events.Scalars("loader/waited_share")
    assert waited.value == pytest.approx(loader.statistics().waited_share)


def test_tensorboard_needs_a_writer(loader: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="SummaryWriter"):
        log_to_tensorboard(loader, object())


def test_opentelemetry_asks_when_it_exports(loader: Any) -> None:
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    observe_with_opentelemetry(loader, provider.get_meter("tests"))

    def exported() -> dict[str, Any]:
        data = reader.get_metrics_data()
        if data is None:
            return {}
        scope = data.resource_metrics[0].scope_metrics[0]
        return {metric.name: metric for metric in scope.metrics}

    def value(name: str) -> float:
        (point,) = exported()[f"mdstorm.loader.{name}"].data.data_points
        return float(point.value)

    assert value("batches") == BATCHES
    list(loader)
    assert value("batches") == 2 * BATCHES
    found = exported()
    assert found["mdstorm.loader.waited_seconds"].unit == "s"
    assert found["mdstorm.loader.shard_bytes"].unit == "By"
    assert hasattr(found["mdstorm.loader.rows"].data, "is_monotonic")  # a sum
    assert not hasattr(found["mdstorm.loader.workers"].data, "is_monotonic")
    assert value("queue_depth") == pytest.approx(loader.statistics().queue_depth)
    provider.shutdown()


def test_opentelemetry_lets_go_of_the_loader(url: str) -> None:
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    loader = converter_of(url).make_torch_dataloader(num_epochs=1)
    observe_with_opentelemetry(loader, provider.get_meter("tests"))
    del loader
    gc.collect()
    assert reader.get_metrics_data() is None
    provider.shutdown()


def test_what_has_no_statistics_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="make_torch_dataloader"):
        log_to_mlflow(object())


def test_opentelemetry_refuses_what_it_cannot_ask_later(loader: Any) -> None:
    pytest.importorskip("opentelemetry.metrics")
    with pytest.raises(ArgumentTypeError, match="data module"):
        observe_with_opentelemetry({"train": loader}, None)
    with pytest.raises(ArgumentTypeError, match="pass the loader"):
        observe_with_opentelemetry(loader.statistics(), None)


def test_lightnings_data_module_has_those_of_its_loaders(url: str) -> None:
    lightning = pytest.importorskip("mdstorm.lightning")
    module = lightning.StreamingDataModule(train=converter_of(url), batch_size=100)
    assert module.statistics() == {}
    list(module.train_dataloader())
    assert module.statistics()["train"].rows == ROWS


def test_a_loader_that_accelerate_has_prepared_has_its_own(loader: Any) -> None:
    accelerate = pytest.importorskip("accelerate")
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    list(prepared)
    assert prepared.statistics().rows == ROWS
