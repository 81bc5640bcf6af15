"""Send the statistics of loaders to MLflow, TensorBoard and OpenTelemetry, with their own clients.

For example, once in an epoch or every hundred steps::

    log_to_mlflow(loader, step=step)

The first argument is a loader, a reader or a TensorFlow dataset, whose ``statistics()`` are sent.
The functions that send numbers once also take `Statistics`, such as the difference of two, or one
of those that a Lightning data module has.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from mdstorm.errors import ArgumentTypeError
from mdstorm_backend.base import require
from mdstorm_backend.loaders import Statistics

__all__ = ["log_to_mlflow", "log_to_tensorboard", "observe_with_opentelemetry"]

#: Names of what a meter shows as it is now; all other numbers are sums.
_GAUGES = {
    "waited_share": "1",
    "download_rate": "By/s",
    "downloading_share": "1",
    "queue_depth": "{result}",
    "workers": "{process}",
}


def log_to_mlflow(
    source: Any, *, step: int | None = None, prefix: str = "loader/", run_id: str | None = None
) -> None:
    """Log the numbers as metrics of a run of MLflow, in one request.

    Parameters
    ----------
    source : object with ``statistics()``, or Statistics
        What is logged.
    step : int, optional
        The step of training.
    prefix : str
        Prefix of the names of the metrics.
    run_id : str, optional
        The run; by default the active one, which MLflow begins if there is none.

    Raises
    ------
    ArgumentTypeError
        If `source` has no statistics.
    MissingDependencyError
        If MLflow is not installed (``pip install mlflow-skinny`` is enough).
    """
    numbers = _numbers(source)
    mlflow = require("mlflow")
    metrics = {f"{prefix}{name}": float(number) for name, number in numbers.items()}
    mlflow.log_metrics(metrics, step=step, run_id=run_id)


def log_to_tensorboard(
    source: Any, writer: Any, *, step: int | None = None, prefix: str = "loader/"
) -> None:
    """Write the numbers as scalars to TensorBoard.

    Parameters
    ----------
    source : object with ``statistics()``, or Statistics
        What is written.
    writer : torch.utils.tensorboard.SummaryWriter
        The writer, or any other object with a method ``add_scalar``.
    step : int, optional
        The step of training.
    prefix : str
        Prefix of the tags.

    Raises
    ------
    ArgumentTypeError
        If `source` has no statistics, or `writer` no ``add_scalar``.
    """
    if not callable(getattr(writer, "add_scalar", None)):
        raise ArgumentTypeError(
            f"writer must have a method add_scalar, found {type(writer).__name__}: create a "
            "torch.utils.tensorboard.SummaryWriter"
        )
    for name, number in _numbers(source).items():
        writer.add_scalar(f"{prefix}{name}", number, global_step=step)


def observe_with_opentelemetry(source: Any, meter: Any, *, prefix: str = "mdstorm.loader.") -> None:
    """Register instruments from which an OpenTelemetry meter reads the numbers at each export.

    Sums are observable counters, and other numbers are observable gauges, in seconds (``s``) and
    bytes (``By``). The meter does not keep `source` alive; once `source` is gone, there is nothing
    to observe.

    Parameters
    ----------
    source : object with ``statistics()``
        The object to observe.
    meter : opentelemetry.metrics.Meter
        The meter on which the instruments are created.
    prefix : str
        Prefix of their names. Use a different prefix for each source of a meter.

    Raises
    ------
    ArgumentTypeError
        If `source` has no statistics, or is a `Statistics` object, which never changes.
    """
    from opentelemetry.metrics import Observation

    if isinstance(source, Statistics):
        raise ArgumentTypeError(
            "Statistics never change, so there is nothing to observe: pass the loader that they "
            "came from"
        )
    names = list(_numbers(source))
    alive = weakref.ref(source)

    def observed(name: str) -> Callable[[Any], Iterable[Any]]:
        def observations(options: Any) -> Iterable[Any]:
            there = alive()
            return [] if there is None else [Observation(_numbers(there)[name])]

        return observations

    for name in names:
        if name in _GAUGES:
            make, unit = meter.create_observable_gauge, _GAUGES[name]
        else:
            make, unit = meter.create_observable_counter, _unit(name)
        make(f"{prefix}{name}", callbacks=[observed(name)], unit=unit)


def _numbers(source: Any) -> dict[str, float]:
    """Return the numbers of a source by name."""
    statistics = getattr(source, "statistics", None)
    found = statistics() if callable(statistics) else source
    if not isinstance(found, Statistics):
        raise ArgumentTypeError(
            f"{type(source).__name__} has no statistics: pass the loader that "
            "converter.make_torch_dataloader() returned, a StreamingDataLoader, a reader, the "
            "dataset of make_tf_dataset(), or one of the values of a data module's statistics()"
        )
    return {name: n for name, n in found.as_dict().items() if not isinstance(n, str)}


def _unit(name: str) -> str:
    if name.endswith("_bytes"):
        return "By"
    is_time = name.endswith("seconds") or name.startswith(("waited_for_", "startup_for_"))
    return "s" if is_time else f"{{{name}}}"
