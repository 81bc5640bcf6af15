"""Keep forked processes from waiting for threads that they do not have."""

from __future__ import annotations

import os
from functools import lru_cache


@lru_cache(maxsize=1)
def make_forks_safe() -> None:
    """Make forks wait until Arrow is initialised.

    When Arrow first converts Python objects, in whichever thread, it imports pandas while holding a
    lock. A process forked in the meantime would wait forever for a thread that it does not have.
    """
    os.register_at_fork(before=set_up_arrow)


def set_up_arrow() -> None:
    """Initialise Arrow, which imports pandas if installed, or wait for a thread doing so."""
    import pyarrow as pa
    import pyarrow.compute

    pa.array([0])
