"""``mdstorm migrate``: the one place at which mdstorm knows of the migration tool."""

from __future__ import annotations

from mdstorm_migrate.cli.migrate import migrate

__all__ = ["migrate"]
