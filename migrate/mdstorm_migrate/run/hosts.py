"""Which machines and images run what of a project, and whether mdstorm runs on them.

A host reaches what it names: the lists that it installs, the programs that it runs, and what these
name or import in turn. One that names nothing reaches the files of its folder and below. If all
hosts that reach a file are too old, what is installed there awaits a review with them; one host
that is new enough lets it move. A list that no host reaches has the hosts of the code that it is
for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.packaging.conflicts import Conflict, is_host, is_old_host
from mdstorm_migrate.packaging.pin import Pin
from mdstorm_migrate.packaging.pins import pins_of
from mdstorm_migrate.run.chains import PROJECT_FILES, Chains
from mdstorm_migrate.run.facts import Facts
from mdstorm_migrate.run.named import Files, copied, joined

#: Kinds of files that describe a project, whose folder they stand for.
_PROJECT: frozenset[Kind] = frozenset({"pipfile", "pyproject", "setup_cfg"})
#: Those that are no list of commands.
_NO_COMMANDS: frozenset[Kind] = frozenset({"conda", "docker", "python"})
#: Files whose Pythons run tools, not the code of the project, or nothing at all.
_TOOLS = re.compile(r"\.pre-commit-config\..*|\.readthedocs\..*|test_.*\.py|(?!runtime).*\.txt")
#: What shows that a file has commands, and that one of them runs the project.
_COMMANDS = re.compile(
    r"""\b(?:run|script|before_script|commands?|args|sh)\b["']?[ \t]*[:(=]"""
    r"""|\bsh[ \t]+["']|\bpip[\d.]*\b|\bpython[\d.]*[ \t]+-"""
)
_RUNS_PROJECT = re.compile(
    r"\b(?:pytest|tox|nox|unittest|make)\b"
    r"|\b(?:poetry|pdm|uv|pipenv|hatch|rye)[ \t]+(?:install|sync|run|test)\b"
)

_LIBRARIES = re.compile(r"""\blibraries["']?[ \t]*:""")


class Hosts:
    """The hosts of a project.

    Parameters
    ----------
    documents : mapping of Path to sequence of Document
        Of the files that require, install or run something.
    lists : collection of Path
        The files that require Petastorm or mdstorm.
    code : mapping of Path to Facts
    paths : collection of Path
        All files of the project.
    chains : Chains
    """

    def __init__(
        self,
        documents: Mapping[Path, Sequence[Document]],
        lists: Collection[Path],
        code: Mapping[Path, Facts],
        paths: Collection[Path],
        chains: Chains,
    ) -> None:
        self.pins = dict(hosts_of(documents))
        self._documents = documents
        self._lists = lists
        self._code = code
        self._links = chains.links
        self._files = Files({*paths, *documents, *code})
        self._below: defaultdict[Path, list[Path]] = defaultdict(list)
        for path in code if self.pins else ():
            for folder in path.parents:
                self._below[folder].append(path)
        #: A Pipfile's Python is that of the image whose own one it is installed for.
        self._ends = {one for one in self.pins if one not in lists or one.name != "Pipfile"}
        self._naming: defaultdict[Path, list[Path]] = defaultdict(list)
        self._around: defaultdict[Path, list[Path]] = defaultdict(list)
        for host in self.pins:
            named = self._reached(host)
            for one in named - {host}:
                self._naming[one].append(host)
            for folder in self._folders(host) if self._is_around(host, named) else ():
                self._around[folder].append(host)
        for path in lists:
            if path not in self.pins and path not in self._naming and (own := self._serving(path)):
                self._naming[path] = own

    def old(self, path: Path) -> tuple[Path, ...]:
        """Return the hosts that reach a file, if all are too old.

        Those that name it come first, then those of the nearest folder.
        """
        found = self._naming.get(path)
        for folder in () if found else path.parents:
            if found := self._around.get(folder):
                break
        pins = [pin for host in found or () for pin in self.pins[host]]
        return tuple(found) if found and all(map(is_old_host, pins)) else ()

    def is_named(self, path: Path) -> bool:
        """Whether a host names a file, by itself or by way of others."""
        return path in self._naming

    def reason(self, path: Path) -> str:
        """Return why a host that is too old holds something back."""
        conflict = Conflict(next(pin for pin in self.pins[path] if is_old_host(pin)), "")
        return f"`{conflict.shown}` of {path}: {conflict.needed}"

    def is_one_new(self, paths: Iterable[Path]) -> bool:
        """Whether one of some files is a host that is new enough."""
        found = (self.pins.get(path, []) for path in paths)
        return any(pins and not all(map(is_old_host, pins)) for pins in found)

    def _serving(self, path: Path) -> list[Path]:
        """Return the hosts of a list that none names: those of the code that it is for."""
        if self._is_for_a_cluster(path):
            return self._runtimes(path.parent)
        if any(one.kind == "magic" for one in self._documents.get(path, ())):  # of a notebook
            return next(filter(None, map(self._runtimes, path.parents)), [])
        if any(folder in self._around for folder in path.parents):
            return []
        served = [one for one in self._below[path.parent] if self._code[one].is_moved]
        hosts = [self._naming.get(one, []) for one in served]
        found = dict.fromkeys(host for one in hosts for host in one if host not in self._lists)
        return list(found) if all(hosts) else []

    def _is_for_a_cluster(self, path: Path) -> bool:
        """Whether a file is the libraries of a cluster at Databricks."""
        found = self._documents.get(path, ())
        return any(one.kind == "cluster" and _LIBRARIES.search(one.text) for one in found)

    def _runtimes(self, folder: Path) -> list[Path]:
        """Return the hosts that say a runtime of Databricks in a folder or below."""
        return [
            host
            for host, pins in self.pins.items()
            if folder in host.parents and any(pin.style == "runtime" for pin in pins)
        ]

    def _reached(self, host: Path) -> set[Path]:
        """Return the files that a host names, directly or by way of others, up to other hosts."""
        found: set[Path] = set()
        todo = [host]
        while todo:
            new = set(self._next(todo.pop(), host)) - found - self._ends
            found |= new
            todo += new
        return found

    def _next(self, path: Path, host: Path) -> Iterator[Path]:
        yield from self._links.get(path, ())
        if path in self._code and path != host:
            for name in self._code[path].imports:
                yield from self._imported(path, name)
            return
        for document in self._documents.get(path, ()):
            yield from self._files.run(path, document)
        if path.name.startswith("tox."):
            beside = (path.with_name(name) for name in PROJECT_FILES)
            yield from (one for one in beside if one in self._documents)

    def _imported(self, path: Path, name: str) -> Iterable[Path]:
        """Return the code that a name means that is imported: a module, or all of a package."""
        for folder in path.parents:
            module = folder / f"{name}.py"
            if found := [module] if module in self._code else self._below.get(folder / name):
                return found
        return ()

    def _is_around(self, host: Path, named: set[Path]) -> bool:
        """Whether a host reaches what is around it, since nothing says what it reaches."""
        if host in self._lists:
            return False
        documents = self._documents[host]
        if any(one.kind in _PROJECT for one in documents):
            return True
        if named:
            return False
        if all(one.kind in _NO_COMMANDS for one in documents):
            return True
        if any(pin.where or pin.style == "runtime" for pin in self.pins[host]):
            return True
        text = "\n".join(one.text for one in documents)
        return _RUNS_PROJECT.search(text) is not None or _COMMANDS.search(text) is None

    def _folders(self, host: Path) -> list[Path]:
        """Return the folders that a host stands for: those that it copies, or its own."""
        own = next((one.parent for one in host.parents[:2] if one.name[:1] == "."), host.parent)
        texts = [one.text for one in self._documents[host] if one.kind == "docker"]
        named = {Path(word) for text in texts for word in copied(text)}
        folders = {joined(above, one) for one in named if one.parts for above in host.parents[:2]}
        known = [one for one in folders if one in self._files.folders]
        return known if known and Path() not in named else [own]


def hosts_of(documents: Mapping[Path, Sequence[Document]]) -> Iterator[tuple[Path, list[Pin]]]:
    """Yield the files that say which Python runs something, and where they do."""
    for path, found in documents.items():
        if _TOOLS.fullmatch(path.name) or path.parent.name in ("test", "tests"):
            continue
        pins = (pin for one in found for pin in pins_of(one))
        if hosts := [one for one in pins if is_host(one) and "$" not in one.specifier]:
            yield path, hosts
