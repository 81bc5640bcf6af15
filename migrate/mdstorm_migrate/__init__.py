"""Rewrite code written for Petastorm so that it uses mdstorm.

Needs nothing but the base install: neither Spark, torch nor TensorFlow is imported, and the code
being migrated is parsed, never run.

A file becomes `Document` objects (`sources`), of which `rules` make edits and findings (`edits`);
`run` keeps those that were selected, applies them and verifies that the result still parses.
`migrate` does that with one text, the command ``mdstorm migrate`` with files.
"""

from mdstorm_migrate.api import Result, migrate
from mdstorm_migrate.base.edits import Edit, Finding

__all__ = ["Edit", "Finding", "Result", "migrate"]


def __dir__() -> list[str]:
    return __all__
