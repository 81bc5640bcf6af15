"""Run programs on mdstorm in place of Petastorm or MosaicML Streaming, without edits."""

from __future__ import annotations

from mdstorm_backend.drop_in.stand_in import AbsentNames, StandIn
from mdstorm_backend.drop_in.streaming import install_as_streaming

__all__ = ["AbsentNames", "StandIn", "install_as_streaming"]
