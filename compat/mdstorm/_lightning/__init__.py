"""The data module for Lightning, for whichever of its two packages."""

from __future__ import annotations

from mdstorm_backend.base import require

require("torch")  # says what to install
