"""The tables of all libraries as one."""

from __future__ import annotations

from mdstorm_migrate.libraries import frameworks, keras, numpy, pandas, pyarrow, science, standard
from mdstorm_migrate.libraries.removed import joined

#: What is gone, by dotted path.
NAMES = joined(
    numpy.NAMES,
    pandas.NAMES,
    pyarrow.NAMES,
    science.NAMES,
    frameworks.NAMES,
    keras.NAMES,
    standard.NAMES,
)
#: Members of objects, by name.
MEMBERS = {**numpy.MEMBERS, **pandas.MEMBERS, **pyarrow.MEMBERS, **frameworks.MEMBERS}
#: Arguments, by the dotted path of a function.
KEYWORDS = {**pandas.KEYWORDS, **pyarrow.KEYWORDS, **frameworks.KEYWORDS}
HOOKS = frameworks.HOOKS
MAKERS = pandas.MAKERS
CONVERSIONS = pandas.CONVERSIONS

#: Packages that a table has something of.
ROOTS = frozenset(path.partition(".")[0] for path in (*NAMES, *KEYWORDS)) | {"lightning"}
#: Other names of the same packages.
SAME_PACKAGES = {"lightning.pytorch": "pytorch_lightning", "lightning": "pytorch_lightning"}


def canonical(path: str) -> str:
    """Return a dotted path as the tables have it."""
    for other, name in SAME_PACKAGES.items():
        if path == other or path.startswith(f"{other}."):
            return name + path.removeprefix(other)
    return path
