"""Data modules for Lightning and a mixin for Hugging Face's Trainer."""

from __future__ import annotations

from mdstorm_backend.base import require

require("torch")  # says what to install
