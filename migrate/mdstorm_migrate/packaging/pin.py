"""One pin: a version, or several, that a file asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Style: TypeAlias = Literal[
    "pip", "poetry", "conda", "version", "list", "block", "environments", "runtime"
]

PYTHON = "python"
#: Where a Python comes from that a list of packages in code names: the code runs on another one.
LISTED = "this list"


@dataclass(frozen=True)
class Pin:
    """A version, or several, that a file asks for.

    Attributes
    ----------
    name : str
        Of the distribution, as the tables have it; ``python`` for Python itself.
    start, stop : int
        The span of the versions.
    specifier : str
    style : {"pip", "poetry", "conda", "version", "list", "block", "environments", "runtime"}
        How they are written; ``version`` is one version and no range, as in ``FROM python:3.8``,
        ``list`` several, each of which is used, ``block`` the same on a line each, ``environments``
        those of tox, ``runtime`` one of Databricks.
    word : int or None
        Where the word begins that it is part of, in a command or in YAML.
    yaml : bool
        Whether it is a value of YAML, quotes included.
    is_fixed : bool
        Whether nobody but the user can change it: in code, or where a variable holds it.
    where : str
        What it comes with, such as an image, if the file does not say it itself.
    """

    name: str
    start: int
    stop: int
    specifier: str
    style: Style = "pip"
    word: int | None = None
    yaml: bool = False
    is_fixed: bool = False
    where: str = ""
