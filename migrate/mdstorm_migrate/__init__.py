"""Rewrite code written for Petastorm so that it uses mdstorm.

Only the base install is needed: Spark, torch and TensorFlow are never imported, and the code being
migrated is parsed, never run.

`sources` turns a file into `Document` objects, and `rules` yield edits and findings for them
(`base.edits`). `run` keeps the selected ones, applies them and verifies that the result still
parses. `migrate` does this with the content of one file, and the ``mdstorm migrate`` command with
files.
"""

from mdstorm_migrate.api import Result, migrate
from mdstorm_migrate.base.edits import Edit, Finding

__all__ = ["Edit", "Finding", "Result", "migrate"]


def __dir__() -> list[str]:
    return __all__
