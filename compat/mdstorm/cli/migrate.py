"""``mdstorm migrate``: the migration tool's command."""

from __future__ import annotations

from mdstorm_migrate.cli.migrate import migrate

__all__ = ["migrate"]
