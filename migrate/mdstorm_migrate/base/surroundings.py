"""What the other files of a run mean for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Surroundings:
    """What the other files of a run mean for one of them.

    Attributes
    ----------
    waits_for : str or None
        Why nothing of the file may move without review: another file that it exchanges objects
        with stays with Petastorm.
    hands_on_root : bool
        Whether another file uses the name ``petastorm`` that this one imports.
    conf : str or None
        Why keys of the configuration may not change without review.
    stays : str or None
        Why names of loggers may not change without review: another file of the run stays with
        Petastorm.
    names : str or None
        Why strings that name modules may not change without review, in a file of which it is not
        known what these reach.
    is_resolved : bool
        Whether code of the run resolves names that stand in configuration such as this file.
    group : sequence of str
        Paths of the files that are written together with this one.
    """

    waits_for: str | None = None
    hands_on_root: bool = False
    conf: str | None = None
    stays: str | None = None
    group: Sequence[str] = ()
    names: str | None = None
    is_resolved: bool = False


#: Of a file alone.
ALONE = Surroundings()
