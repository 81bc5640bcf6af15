"""Kinds of streams by name, for ``StreamingDataset(stream_name=…)``."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, TypeVar, overload

from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.errors import InvalidArgumentError

StreamMaker = Callable[..., Stream]
_Made = TypeVar("_Made", bound=StreamMaker)

#: Where distributions name theirs, as for MosaicML Streaming.
_ENTRY_POINTS = "streaming_streams_registry"


class StreamRegistry:
    """Kinds of streams: subclasses of `Stream`, or functions that make streams.

    Attributes
    ----------
    namespace : tuple of str
        The group of entry points that MosaicML Streaming uses.
    """

    namespace = ("streaming", "streams_registry")

    def __init__(self) -> None:
        self._kinds: dict[str, StreamMaker] = {"stream": Stream}

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in self.get_entry_points()

    @overload
    def register(self, name: str, *, func: _Made) -> _Made: ...

    @overload
    def register(self, name: str, *, func: None = None) -> Callable[[_Made], _Made]: ...

    def register(self, name: str, *, func: Any = None) -> Any:
        """Register a kind of streams; replaces a kind of the same name.

        Parameters
        ----------
        name : str
            The value of ``stream_name`` that selects the kind.
        func : callable, optional
            Creates a stream from keyword arguments. Without it, `register` is a decorator.
        """

        def register(made: _Made) -> _Made:
            self._kinds[name] = made
            return made

        return register if func is None else register(func)

    register_class = register
    __call__ = register

    def get(self, name: str) -> StreamMaker:
        """Return the kind of that name.

        Raises
        ------
        InvalidArgumentError
            If there is no kind of that name.
        """
        if name in self._kinds:
            return self._kinds[name]
        known = self.get_all()
        if name not in known:
            raise InvalidArgumentError(
                f"stream_name={name!r} is not a registered kind of stream: register it, "
                f"streams_registry.register({name!r}, func=…), or choose among {sorted(known)}"
            )
        return known[name]

    def get_all(self) -> dict[str, StreamMaker]:
        """Return all kinds by name."""
        return {**self.get_entry_points(), **self._kinds}

    def get_entry_points(self) -> dict[str, StreamMaker]:
        """Return the kinds that installed distributions have."""
        return {point.name: point.load() for point in entry_points(group=_ENTRY_POINTS)}


#: The registered kinds of streams.
streams_registry = StreamRegistry()
