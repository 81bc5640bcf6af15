"""Where Petastorm comes from but an index, and distributions of other names that provide it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.requirement import UBER, is_of_pypi
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
#: An option with a folder that pip looks into.
_FOLDER = re.compile(r"(?<![\w-])(?:--find-links|-f)(?:[ \t]+|=)[\"']?\Z")
#: The page of a repository as the value of a key, which installs nothing, and keys that may.
_PAGE = re.compile(r"https?://github\.com/[\w.-]+/petastorm/?[\"'>,;)}\]]*", re.IGNORECASE)
_KEY = re.compile(r"""(?P<key>[A-Za-z][\w .-]*?)["']?[ \t]*[:=][ \t]*["']?\Z""")
_INSTALLS = re.compile(
    r"(?i:git|remote|clone|install|require|depend|package|pip|\brepo\Z)"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z"  # a variable of the environment
)
_FETCHES = re.compile(r"(?i:git(?!hub\.com)|fetch|\brev\b|clone)")
#: An address of a host that need not keep repositories, and what says that it does.
_WEB = re.compile(r"https?://(?P<host>[^\s/]+)[^\s@#]*", re.IGNORECASE)
_OF_CODE = re.compile(r"\.(?:egg|git|gz|tgz|whl|zip)\b", re.IGNORECASE)
_KEEPS_CODE = re.compile(
    r"git|hg\b|svn|bitbucket|azure|visualstudio|code|src|scm|stash|gerrit|phab|repo|pypi", re.I
)
_TAKES = re.compile(
    r"git|\bhg\b|clone|fetch|install|submodule|remote|\brev\b|\brepo|index|links|-[ef] |@ |\+", re.I
)
#: How far before an address that is looked for, in characters.
_NEAR = 100
_OTHERS = re.compile(r"(?<![\w./-])(hops-petastorm|py-petastorm)(?![\w-])", re.IGNORECASE)


def other_origins(text: str, rule: str, *, has_links: bool = False) -> Iterator[Finding]:
    """Report repositories of Petastorm, and distributions of another name that provide it.

    With `has_links`, the text may also name the page of the repository, which installs nothing.
    """
    told = []
    for match in _REPOSITORY.finditer(text):
        if _is_web_page(text, match) or (has_links and _is_link(text, match)):
            continue
        told.append(match.span())
        yield _of_repository(text, match, rule)
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


def _of_repository(text: str, match: re.Match[str], rule: str) -> Finding:
    if _FOLDER.search(text, max(match.start() - _NEAR, 0), match.start()):
        what = "pip looks into this place, too: see whether it has what the project installs"
        return Finding(rule, "note", *match.span(), what)
    if is_of_pypi(match[0]):
        what = "this installs a release of Petastorm by the address of its file on PyPI"
        remedy = f"{what}: require mdstorm instead"
        return Finding(rule, "manual", *match.span(), what, remedy, topic="install")
    what = "Petastorm comes from a repository or a file, perhaps with changes of its own"
    remedy = "install mdstorm instead, after a review of what was changed"
    if UBER.search(match[0]):
        what, remedy = "Petastorm comes from its own repository", "install mdstorm instead"
    return Finding(rule, "manual", *match.span(), what, remedy, topic="install")


def _is_web_page(text: str, match: re.Match[str]) -> bool:
    """Whether an address is of a host that keeps no code, as far as it and what is before say."""
    address = _WEB.fullmatch(match[0].rstrip("\"'>,.;)}]"))
    if address is None or _KEEPS_CODE.search(address["host"]) or _OF_CODE.search(match[0]):
        return False
    return _TAKES.search(text, max(match.start() - _NEAR, 0), match.start()) is None


def _is_link(text: str, match: re.Match[str]) -> bool:
    """Whether an address is that of the page that a project is described on."""
    before = text[max(match.start() - _NEAR, 0) : match.start()]
    key = _KEY.search(before.rpartition("\n")[2])
    if key is None or _PAGE.fullmatch(match[0]) is None or _INSTALLS.search(key["key"]):
        return False
    is_page = re.fullmatch(r"(?i)url|uri|source|src", key["key"]) is None
    return is_page or _FETCHES.search(before) is None
