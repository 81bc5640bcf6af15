"""Where Petastorm comes from but an index, and distributions of other names that provide it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.requirement import UBER
from mdstorm_migrate.python.archives import of_shipped, shipped_library

_REPOSITORY = re.compile(
    r"""(?<!@[ ]) (?<![\w+])
    (?: (?:git\+)? (?:https?|ssh|git):// (?![^\s"',]*/simple/?(?=["'\s,]|\Z))
        (?!\S*/petastorm/(?:actions|blob|commits?|compare|discussions|issues|labels|pulls?|wiki)\b)
        \S* /petastorm (?:\.git)? (?![\w-]) \S*
      | (?<![^\s"'=]) [^\s"'=]* /petastorm-\d[^\s"',]* \.(?:whl|zip|tar\.gz)
      | (?<=-e[ ]) \S* /petastorm/? (?=\s|$) )""",
    re.IGNORECASE | re.VERBOSE,
)
#: What commands of Spark, and of clouds, send along with a program.
_SHIPPED = re.compile(
    r"""(?:--(?:py-?files|archives|files|py-file|python-files)(?:[ \t=]+|["'][ \t]*,[ \t]*["'])
    | \bspark\.(?:submit\.pyFiles|(?:yarn\.dist\.)?(?:archives|files)
        |executorEnv\.PYTHONPATH)["']?[ \t]*[=:][ \t]*
    | \b(?:py_?[fF]iles|python_?[fF]ile_?[uU]ris|archive_?[uU]ris)["']?[ \t]*[:=][ \t]*\[? )
    ["']?(?P<files>[^\s"';&|\]]+)""",
    re.VERBOSE,
)
_OTHERS = re.compile(r"(?<![\w./-])(hops-petastorm|py-petastorm)(?![\w-])", re.IGNORECASE)


def other_origins(text: str, rule: str) -> Iterator[Finding]:
    """Report repositories of Petastorm, and distributions of another name that provide it."""
    told = [match.span() for match in _REPOSITORY.finditer(text)]
    for start, stop in told:
        what = "Petastorm comes from a repository or a file, perhaps with changes of its own"
        remedy = "install mdstorm instead, after a review of what was changed"
        if UBER.search(text, start, stop):
            what, remedy = "Petastorm comes from its own repository", "install mdstorm instead"
        yield Finding(rule, "manual", start, stop, what, remedy)
    for match in _SHIPPED.finditer(text):
        file = shipped_library(match["files"])
        if file is not None and not is_commented_out(text, match.start()):
            start = match.start("files") + match["files"].index(file)
            if any(first <= start < last for first, last in told):
                continue
            yield of_shipped(file, rule, start, start + len(file))
    for match in _OTHERS.finditer(text):
        yield Finding(
            rule,
            "manual",
            match.start(),
            match.end(),
            f"{match[0]} provides the package `petastorm` too, and hides imports that were missed",
            "remove it once the code is migrated",
        )
