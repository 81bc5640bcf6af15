"""Write a project, migrate it, and see what has become of it."""

from __future__ import annotations

from pathlib import Path

from tests.migrate.checks import invoke

from mdstorm_migrate.cli.migrate import migrate


def after(files: dict[str, str], *options: str) -> dict[str, str]:
    """Write files below the working directory, migrate them, and return what they have become."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    done = invoke(migrate, "-w", "--no-diff", "-j", "1", *options, ".")
    assert done.exit_code == 0, done.stderr
    return {name: Path(name).read_text() for name in files}
