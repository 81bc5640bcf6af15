"""Run programs on one of mdstorm's packages in place of the library that they import."""

from __future__ import annotations

from mdstorm_backend.drop_in.stand_in import AbsentNames, StandIn
from mdstorm_backend.drop_in.streaming import install_as_streaming

__all__ = ["AbsentNames", "StandIn", "install_as_streaming"]
