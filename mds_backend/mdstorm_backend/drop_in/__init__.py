"""Run programs on mdstorm in place of Petastorm or MosaicML Streaming, without edits."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent_names import AbsentNames
from mdstorm_backend.drop_in.stand_in import StandIn

__all__ = ["AbsentNames", "StandIn"]
