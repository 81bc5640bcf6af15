"""Files of one document: requirements, TOML, INI, YAML, Dockerfiles, Markdown.

What a file is shows in its name; of YAML and JSON, which are used for everything, only those that
say something of Petastorm's are read at all.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from mdstorm_migrate.base.document import DecodedFile, Document, Kind, Segment, SourceError
from mdstorm_migrate.sources.decoding import decode

#: Kinds by name, the first that fits; names in lower case.
_KINDS: dict[Kind, re.Pattern[str]] = {
    "lock": re.compile(r".*\.lock|conda-lock\.ya?ml"),
    "requirements": re.compile(
        r".*(require|constraint|\breqs?\b)[^/]*\.(txt|in|pip)|.*\.requirements"
    ),
    "pyproject": re.compile(r"pyproject\.toml"),
    "pipfile": re.compile(r"pipfile"),
    "setup_cfg": re.compile(r"(setup|tox|pytest|mypy)\.(cfg|ini)"),
    "conda": re.compile(r"(.*[-_.])?(environment|conda|env|meta)([-_.].*)?\.ya?ml"),
    "docker": re.compile(r"(.*[-_.])?(dockerfile|containerfile)([-_.].*)?"),
    "shell": re.compile(r".*\.(sh|bash|zsh)|makefile|.*\.mk"),
    "spark_conf": re.compile(r".*\.(conf|properties)"),
    "cluster": re.compile(r".*\.(json|ya?ml)"),
    "markdown": re.compile(r".*\.(md|rst|markdown)"),
}
#: Directories whose text files are lists of requirements.
_REQUIREMENTS_DIRECTORIES = frozenset({"requirements", "reqs"})
#: How a report of ours in JSON or SARIF begins, whose texts are quoted from other files.
_REPORT = re.compile(r'"tool":\s*\{\s*(?:"driver":\s*\{\s*)?"name":\s*"mdstorm (?:migrate|audit)"')
#: Where that stands, in characters.
_REPORT_HEAD = 512


def kind_of(path: PurePath) -> Kind | None:
    """Return what kind of plain file a path names; None if it is none of them."""
    name = path.name.lower()
    if path.suffix.lower() == ".txt" and path.parent.name.lower() in _REQUIREMENTS_DIRECTORIES:
        return "requirements"
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(name)), None)


class PlainSource:
    """Reads files that are one document."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the name of the file is that of a kind."""
        return kind_of(path) is not None

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the file as one document; a report of ours as none.

        Raises
        ------
        SourceError
            If it is not UTF-8.
        """
        kind = None if path is None else kind_of(path)
        if kind is None:
            raise SourceError(f"{path} is no kind of file that is known")
        text, prefix = decode(data)
        if kind == "cluster" and _REPORT.search(text, 0, _REPORT_HEAD):
            return DecodedFile(text, [], prefix=prefix)
        return DecodedFile(text, [Document(kind, [Segment(text)], path)], prefix=prefix)


SOURCE = PlainSource()
