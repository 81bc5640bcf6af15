"""``mdstorm audit``: the second command of the migration tool, beside ``mdstorm migrate``."""

from __future__ import annotations

from mdstorm_migrate.cli.audit import audit

__all__ = ["audit"]
