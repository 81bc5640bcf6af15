"""What one file says of itself to the index of a run."""

from __future__ import annotations

from dataclasses import dataclass

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.exchange import Exchange
from mdstorm_migrate.run.naming import Naming


@dataclass(frozen=True)
class FileFacts:
    """What one file says of itself.

    Attributes
    ----------
    exchange : Exchange
        What it gives and takes.
    is_ours : bool
        Whether it uses Petastorm itself.
    stays : str or None
        What of it stays with Petastorm.
    splits_conf : bool
        Whether it names the configuration's key in ways that an edit does not reach.
    names_wait : bool
        Whether strings of it that name modules wait for review.
    naming : Naming
        What strings of it that name modules do.
    """

    exchange: Exchange
    is_ours: bool = True
    stays: str | None = None
    splits_conf: bool = False
    names_wait: bool = False
    naming: Naming = ""

    @property
    def holds(self) -> str | None:
        """What of it does not move without review; None if all may."""
        return self.stays or ("strings in it name modules" if self.names_wait else None)

    @property
    def uses(self) -> bool:
        """Whether it does more than mention Petastorm."""
        is_used = any(OLD_ROOT in roots for _, roots in self.exchange.roots)
        return self.is_ours and (is_used or self.holds is not None or self.naming != "")
