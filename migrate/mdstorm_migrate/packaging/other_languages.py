"""Uses of Petastorm's modules in gin files, and in R by way of reticulate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out

#: What a file of gin imports, sets or refers to: ``@train/petastorm.pytorch.DataLoader()``.
_GIN = re.compile(
    r"""^[ \t]*(?:from|import)[ \t]+(?P<imported>petastorm\b[\w.]*)
    | (?<![\w.-])(?P<named>petastorm(?:\.\w+)+)(?=[ \t]*=|\s|\(|,|\)|\]|\}|\Z)""",
    re.VERBOSE | re.MULTILINE,
)
#: Functions of reticulate that import, run or look for Python's modules.
_R = re.compile(
    r"""\b(?:import|import_from_path|py_module_available|py_run_string|py_eval|py_run_file)
    \(\s*(?P<quote>["'])(?:(?!(?P=quote)).)*?(?<![\w.-])petastorm(?![\w-])(?:(?!(?P=quote)).)*(?P=quote)""",
    re.VERBOSE | re.DOTALL,
)


def report_other_languages(document: Document, rule: str) -> Iterator[Finding]:
    """Report what a file of gin or R takes from Petastorm, once a line."""
    suffix = "" if document.path is None else document.path.suffix.lower()
    if suffix == ".gin":
        patterns, what = _GIN, "this file of gin names a part of Petastorm"
    elif suffix in (".r", ".rmd", ".qmd"):  # of pages, their chunks of R
        patterns, what = _R, "this uses Petastorm by way of reticulate"
    else:
        return
    seen: set[int] = set()
    for found in patterns.finditer(document.text):
        line = document.lines.start_of(found.end())
        if line not in seen and not is_commented_out(document.text, found.start()):
            seen.add(line)
            yield Finding(rule, "manual", *found.span(), what, "name mdstorm in it")
