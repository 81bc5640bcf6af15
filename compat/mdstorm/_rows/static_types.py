"""What type checkers are told of rows, and of TensorFlow's datasets, which have no stubs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

    from mdstorm_backend.loaders import Statistics

    class Row(tuple[Any, ...]):
        """A row, a batch of rows, or an n-gram: fields by name, or by number.

        Its real class is made from the schema. An n-gram is a dict from offset to row.
        """

        def __getattr__(self, field: str) -> Any: ...

else:
    Row = tuple

_Element = TypeVar("_Element", covariant=True)


class TFDataset(Protocol[_Element]):
    """A ``tf.data.Dataset`` of some elements; what is not named here is `Any`."""

    def __iter__(self) -> Iterator[_Element]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def batch(self, batch_size: int, *arguments: Any, **options: Any) -> TFDataset[_Element]:
        """As of ``tf.data.Dataset``."""

    def cache(self, filename: str = "") -> TFDataset[_Element]:
        """As of ``tf.data.Dataset``."""

    def map(self, map_func: Callable[..., Any], *arguments: Any, **options: Any) -> TFDataset[Any]:
        """As of ``tf.data.Dataset``."""

    def prefetch(self, buffer_size: Any) -> TFDataset[_Element]:
        """As of ``tf.data.Dataset``."""

    def repeat(self, count: int | None = None) -> TFDataset[_Element]:
        """As of ``tf.data.Dataset``."""

    def take(self, count: int) -> TFDataset[_Element]:
        """As of ``tf.data.Dataset``."""

    def __getattr__(self, name: str) -> Any: ...


class ResumableTFDataset(TFDataset[_Element], Protocol[_Element]):
    """A dataset that the converter makes, which has a place and statistics."""

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return what was delivered so far, and what was waited for."""

    def state_dict(self, batches: int | None = None) -> dict[str, Any]:
        """Return where the iteration that was begun last stands, for `load_state_dict`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on where `state` was taken."""
