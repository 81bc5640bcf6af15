"""Files that are one document: requirements, TOML, INI, YAML, Dockerfiles, Markdown pages.

A file's name determines its kind. YAML and JSON are used for everything, so only files that mention
Petastorm are read any further.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePath

from mdstorm_migrate.base.document import (
    DecodedFile,
    Document,
    DocumentKind,
    SourceError,
    TextSegment,
)
from mdstorm_migrate.sources import HEAD
from mdstorm_migrate.sources.decoding import decode_text, is_wide

#: File names of each kind, in lower case; the first match counts.
_KINDS: dict[DocumentKind, re.Pattern[str]] = {
    "lock": re.compile(r".*\.lock|conda-lock\.ya?ml|pylock(\..+)?\.toml"),
    "requirements": re.compile(
        r".*(require|constraint|\breqs?\b)[^/]*\.(txt|in|pip)|(.*\.)?requirements"
    ),
    "pyproject": re.compile(r"pyproject\.toml|(?:hatch|pixi|tox)\.toml|\.?ruff\.toml"),
    "pipfile": re.compile(r"pipfile"),
    "setup_cfg": re.compile(
        r"\.?(setup|tox|pytest|mypy|isort)\.(cfg|ini)|\.(coveragerc|flake8|importlinter)|\.?pylintrc"
    ),
    "conda": re.compile(
        r"(?!python_env\.ya?ml$)(.*[-_.])?(environment|conda|env|meta)([-_.].*)?\.ya?ml"
    ),
    "docker": re.compile(
        r"(?!.*\.(?:py|md|rst|ya?ml|json|sh|txt)$)(.*(dockerfile|containerfile).*|.*\.docker)"
    ),
    "shell": re.compile(
        r".*\.(sh|bash|zsh|bat|cmd|ps1|mk)|makefile|justfile|procfile|jenkinsfile|vagrantfile"
    ),
    "cluster": re.compile(r".*\.(json[5c]?|tf|ya?ml)|\.renovaterc|mlproject"),
    "markdown": re.compile(r".*\.(md|rst|markdown)"),
}
#: The front matter of a Markdown page that is a notebook.
_NOTEBOOK = re.compile(
    rb"\s*---[ \t]*\r?\n(?:(?!---)[^\n]*\n)*?(?:jupyter|jupytext|kernelspec)[ \t]*:"
)
#: Directories whose text files are lists of requirements.
_REQUIREMENTS_DIRECTORIES = frozenset(
    {"constraints", "deps", "dependencies", "req", "reqs", "requirement", "requirements"}
)
#: A line in a list of requirements, such as the output of ``pip freeze``, under any file name.
_ENTRY = re.compile(
    r"""\s* (?: \#.* | -[-\w].* | [A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?
      [ \t]*(?:[=<>~!]=?=?[^;#]*|@[ ].*|\([=<>~!\d][^)]*\))? (?:;.*)? (?:[ \t]\#.*)? )? \\? \s*""",
    re.VERBOSE,
)
_VERSIONED = re.compile(r"[ \t]*(-[rc] |[^#]*[=<>~]=|[\w.-]+[ \t]*[<>][ \t]*\d)")
#: Patterns for the start of files whose names do not determine their kind.
_HEADS: dict[DocumentKind, re.Pattern[bytes]] = {
    "docker": re.compile(
        rb"(?:\s*#[^\n]*\n|\s*ARG[ \t][^\n]*\n|\s*\n)*\s*FROM[ \t]+[\w./:${}-]+"
        rb"(?![\w./:${}-]|[ \t]+c?import\b)",  # Python's "from x import"
        re.IGNORECASE,
    ),
    # Apptainer's definition of an image consists of scripts.
    "shell": re.compile(rb"#![^\n]*\b(?:ba|z|da|k)?sh\b|(?:\s*#[^\n]*\n)*\s*[Bb]ootstrap:[ \t]*\w"),
}
#: Pattern for the start of tox settings.
_TOX = re.compile(rb"(?:\s*[#;][^\n]*\n)*\s*\[(?:tox|testenv[^\]\n]*)\]\s")
_NO_TEXT = (
    "py pyi pyc pyw ipynb so dll dylib a o exe class jar war whl egg zip tgz gz bz2 xz lz zst "
    "7z tar parquet avro orc arrow feather h5 hdf5 npy npz pkl pickle pt pth ckpt onnx pb "
    "tflite mds bin dat db sqlite csv tsv jsonl ndjson crc log png jpg jpeg gif bmp tif tiff "
    "webp ico svg mp3 mp4 wav avi mov ttf woff woff2 eot pdf doc docx ppt pptx xls xlsx css "
    "scss less htm html xml map diff patch orig bak pem key crt"
)
#: Suffixes of files that are not searched: files of other sources, binaries, data, web pages.
_SKIPPED_SUFFIXES = frozenset(f".{one}" for one in _NO_TEXT.split())
#: Pattern for the start of mdstorm's own reports in JSON or SARIF, whose messages quote other
#: files.
_REPORT = re.compile(r'"tool":\s*\{\s*(?:"driver":\s*\{\s*)?"name":\s*"mdstorm (?:migrate|audit)"')
#: Number of characters at the start of a file in which to search for `_REPORT`.
_REPORT_HEAD = 512


def kind_of(path: PurePath, head: bytes = b"") -> DocumentKind | None:
    """Return the kind of a plain file, or None if the file is not a plain file.

    Files with other names are classified by how they begin, if they are text.
    """
    name, suffix = path.name.lower(), path.suffix.lower()
    if suffix in (".txt", ".in") and path.parent.name.lower() in _REQUIREMENTS_DIRECTORIES:
        return "requirements"
    found = _named_kind(name)
    if found is not None or not head or not may_be_text(path):
        return found
    if is_wide(head):
        head = head.decode("utf-16", "ignore").encode()
    if b"\0" in head:
        return None
    if _is_list(head.decode("utf-8", "replace")):
        return "requirements"
    if _TOX.match(head):
        return "setup_cfg"
    return next((kind for kind, pattern in _HEADS.items() if pattern.match(head)), "text")


@lru_cache(maxsize=4096)
def _named_kind(name: str) -> DocumentKind | None:
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(name)), None)


def is_notebook(path: PurePath, head: bytes) -> bool:
    """Whether a Markdown page is a notebook, judging by its suffix or front matter."""
    suffix = path.suffix.lower()
    return suffix in (".qmd", ".rmd") or (suffix == ".md" and _NOTEBOOK.match(head) is not None)


def may_be_text(path: PurePath) -> bool:
    """Whether a file of an unknown kind may contain text that people write."""
    is_of_git = path.name.startswith(".git") and path.name != ".gitmodules"
    return not is_of_git and path.suffix.lower() not in _SKIPPED_SUFFIXES


def _is_list(head: str) -> bool:
    """Whether the first lines of a file are requirements, at least one with a version."""
    lines = head.splitlines()
    if len(head) >= HEAD:
        lines.pop()  # the last line may be cut off
    if not all(map(_ENTRY.fullmatch, lines)):
        return False
    return any(_VERSIONED.match(line) for line in lines)


class PlainSource:
    """The source for files that are one document."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether a file is of a known kind, judging by its name or its start."""
        return kind_of(path, head) is not None and not is_notebook(path, head)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the file as one document, or without documents if it is an mdstorm report.

        Raises
        ------
        SourceError
            If the file is neither UTF-8 nor UTF-16 with a byte order mark, as PowerShell writes it.
        """
        kind = None if path is None else kind_of(path, data[:HEAD])
        if kind is None:
            raise SourceError(f"{path} is not a known kind of file")
        text, prefix, encoding = decode_text(data)
        if kind in ("cluster", "text") and _REPORT.search(text, 0, _REPORT_HEAD):
            return DecodedFile(text, [], encoding, prefix)
        return DecodedFile(text, [Document(kind, [TextSegment(text)], path)], encoding, prefix)


SOURCES = (PlainSource(),)
