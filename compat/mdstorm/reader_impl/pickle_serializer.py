"""Send rows as pickles: the mirror of ``petastorm.reader_impl.pickle_serializer``."""

from __future__ import annotations

import pickle
from typing import Any

__all__ = ["PickleSerializer"]


class PickleSerializer:
    """Pickles rows. mdstorm takes it as an argument of `ProcessPool`, and does not use it."""

    def serialize(self, rows: Any) -> bytes:
        """Return a pickle."""
        return pickle.dumps(rows, protocol=pickle.HIGHEST_PROTOCOL)

    def deserialize(self, serialized_rows: bytes) -> Any:
        """Return what `serialize` has pickled: never give it bytes from elsewhere."""
        return pickle.loads(serialized_rows)  # noqa: S301  its own
