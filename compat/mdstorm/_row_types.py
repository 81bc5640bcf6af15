"""Static types of rows, and of TensorFlow datasets of rows."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from mdstorm_backend.loaders import Statistics, Trace

_Element = TypeVar("_Element", covariant=True)

if TYPE_CHECKING:

    class Row(tuple[Any, ...]):
        """A row, a batch of rows, or an n-gram, with fields accessible by name or index.

        The actual class is generated from the schema. N-grams are dicts from offset to row.
        """

        def __getattr__(self, field: str) -> Any: ...

else:
    Row = tuple


class TFDataset(Protocol[_Element]):
    """A ``tf.data.Dataset`` with typed elements. All other attributes are typed as `Any`."""

    def __iter__(self) -> Iterator[_Element]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def __getattr__(self, name: str) -> Any: ...


class ResumableTFDataset(TFDataset[_Element], Protocol[_Element]):
    """A TensorFlow dataset created by a converter, with state and statistics."""

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return the number of rows read and the time spent waiting."""

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return the state of the latest iteration, for `load_state_dict`."""

    def load_state_dict(self, state: dict[str, Any], *, skip_batches: int = 0) -> None:
        """Resume the next iteration from a state, or `skip_batches` batches after it."""

    def trace(self, state: dict[str, Any] | None = None) -> Trace:
        """Return which rows the batches have, on any rank, without reading data."""
