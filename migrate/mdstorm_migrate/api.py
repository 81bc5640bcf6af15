"""The Python function `migrate`, which takes the content of a file and returns a `Result`."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from mdstorm_migrate.base.edits import Edit, Finding, unified_diff
from mdstorm_migrate.run.outcome import Library, Problem, Settings
from mdstorm_migrate.run.together import migrate_alone
from mdstorm_migrate.sources import find_source
from mdstorm_migrate.sources.python import PythonSource

__all__ = ["Result", "migrate"]


@dataclass(frozen=True)
class Result:
    """The result of migrating the content of one file.

    Attributes
    ----------
    source, output : str
        The content before and after; equal if nothing changes.
    edits : tuple of Edit
        The applied edits, in textual order.
    findings : tuple of Finding
        What needs attention. The class ``review`` marks edits that only ``unsafe=True``
        applies.
    errors : tuple of Problem
        Why the content could not be parsed or changed. `output` is then `source`, unless the
        problem is in one cell of a notebook.
    path : str
        The file name under which the content was read.
    """

    source: str
    output: str
    edits: tuple[Edit, ...]
    findings: tuple[Finding, ...]
    errors: tuple[Problem, ...]
    path: str

    @property
    def changed(self) -> bool:
        """Whether `output` differs from `source`."""
        return self.source != self.output

    def diff(self) -> str:
        """Return a unified diff, or an empty string if nothing changes."""
        return unified_diff(self.source, self.output, self.path)


def migrate(
    source: str | bytes,
    *,
    path: str | PurePath | None = None,
    unsafe: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    todo: bool = True,
    library: Library = "petastorm",
) -> Result:
    r"""Rewrite code that uses Petastorm so that it uses mdstorm. No file is modified.

    Parameters
    ----------
    source : str or bytes
        The content of a file; bytes are decoded according to the kind of file.
    path : str or path, optional
        Name of the file, which determines its kind, such as ``notebook.ipynb``; by default, a
        Python file. Neighbouring files matter: a ``petastorm.py`` there shadows the library.
    unsafe : bool
        Whether to also apply edits that may change behaviour.
    select, ignore : sequence of str
        Codes of rules, or prefixes of codes.
    todo : bool
        Whether to insert TODO comments for manual review.
    library : {"petastorm", "streaming"}
        The library to replace; ``"streaming"`` is MosaicML Streaming.

    Raises
    ------
    ValueError
        If `path` does not name a kind of file that can be migrated.

    Examples
    --------
    >>> result = migrate("from petastorm import make_reader\n")
    >>> result.output
    'from mdstorm import make_reader\n'
    >>> [edit.rule for edit in result.edits]
    ['PM101']
    """
    settings = Settings(unsafe, tuple(select), tuple(ignore), todo, library=library)
    name = PurePath("<string>" if path is None else path)
    data = _encoded(source) if isinstance(source, str) else source
    kind = PythonSource() if path is None else find_source(name, data)
    if kind is None:
        raise ValueError(
            f"{path} is not a kind of file that can be migrated; see `mdstorm migrate --help`"
        )
    outcome = migrate_alone(data, None if path is None else name, kind, settings)
    before, after = outcome.texts()
    if isinstance(source, str) and outcome.before == outcome.after:
        before = after = source  # files that do not mention the library are not decoded
    return Result(
        before,
        after,
        tuple(outcome.edits),
        tuple(outcome.findings),
        tuple(outcome.problems),
        str(name),
    )


def _encoded(source: str) -> bytes:
    """Return the bytes of a string in the encoding that its first lines declare."""
    data = source.encode("utf-8", "surrogatepass")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data if encoding.startswith("utf-8") else source.encode(encoding)
    except (SyntaxError, UnicodeEncodeError):
        return data  # the `Source` that reads the bytes reports the error
