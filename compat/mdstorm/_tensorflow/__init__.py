"""Implementation of the datasets in `mdstorm.tf_utils`."""

from __future__ import annotations

from mdstorm_backend.base import require

require("tensorflow")  # the error explains what to install
