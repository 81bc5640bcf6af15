"""Commands that edit Petastorm's files where they are installed: mdstorm has none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out

_LINE = r"(?:[^\n\\]|\\\r?\n|\\.)*?"
_FILES = re.compile(
    rf"""(?:site|dist)-packages/petastorm(?![\w-]) (?:/[\w./*-]*)?
    | (?:site|dist)-packages\b {_LINE} \bpatch\b {_LINE}
      [\w./-]*petastorm[\w.-]*\.(?:patch|diff)\b
    | \bpatch\b {_LINE} [\w./-]*petastorm[\w.-]*\.(?:patch|diff)\b {_LINE}
      (?:site|dist)-packages""",
    re.VERBOSE,
)


def installed_files(text: str) -> Iterator[re.Match[str]]:
    """Yield what names Petastorm's installed files, as ``sed -i … site-packages/petastorm/…``."""
    return (one for one in _FILES.finditer(text) if not is_commented_out(text, one.start()))


def report_installed_files(text: str, rule: str) -> Iterator[Finding]:
    """Report the commands of a text that use Petastorm's installed files."""
    for found in installed_files(text):
        what = "this command uses Petastorm's installed files, which mdstorm has not"
        remedy = f"{what}: take it out, or see whether mdstorm needs the change"
        yield Finding(rule, "manual", *found.span(), what, remedy)
