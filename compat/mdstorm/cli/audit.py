"""``mdstorm audit``: the audit command of the migration tool."""

from __future__ import annotations

from mdstorm_migrate.cli.audit import audit

__all__ = ["audit"]
