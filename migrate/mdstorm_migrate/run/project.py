"""Give the files that require Petastorm what the code around them, and files beside them, need."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.needs import FALLBACK, Needs
from mdstorm_migrate.packaging.bounds import EXTRAS
from mdstorm_migrate.packaging.compiled import is_compiled_from
from mdstorm_migrate.packaging.conflicts import conflicts_of
from mdstorm_migrate.packaging.own_extras import BROUGHT_BY_EXTRAS, own_extras, petastorm_extras
from mdstorm_migrate.packaging.pin import Pin
from mdstorm_migrate.packaging.required_names import provided_by, required_names
from mdstorm_migrate.packaging.upper_bounds import upper_bounds
from mdstorm_migrate.run.brought import BROUGHT, is_in
from mdstorm_migrate.run.chains import Chains
from mdstorm_migrate.run.discover import is_code
from mdstorm_migrate.run.facts import Facts, needed_extras, notebook_needs
from mdstorm_migrate.run.hosts import Hosts
from mdstorm_migrate.run.settings import Settings

#: What lists for documentation are called.
_DOCS = re.compile(r"(?<![a-z])(?:docs?|documentation|mkdocs|sphinx|rtd)(?![a-z])", re.IGNORECASE)


@dataclass
class Project:
    """The files of a run that require something, and the code that needs it.

    Attributes
    ----------
    documents : dict of Path to sequence of Document
        Of files that require or install something.
    requiring : set of Path
        Those that require Petastorm, or mdstorm already.
    setting : set of Path
        Those that have entry points of Petastorm, settings that name its modules, or commands that
        run its programs.
    code : dict of Path to Facts
        Of files of code, as they will be.
    settings : Settings
    paths : collection of Path
        All files.
    pages : collection of Path
        Pages that tools make by importing Petastorm.
    """

    documents: Mapping[Path, Sequence[Document]]
    requiring: set[Path]
    setting: set[Path]
    code: Mapping[Path, Facts]
    settings: Settings
    paths: Collection[Path] = ()
    pages: Collection[Path] = ()

    @cached_property
    def _below(self) -> dict[Path, Facts]:
        """The facts of all code below each directory."""
        return self._folded(set())

    @cached_property
    def _own(self) -> dict[Path, Facts]:
        """The same without directories further down that have requirements of their own."""
        return self._folded({path.parent for path in self.requiring - self._chains.joining})

    def _folded(self, ends: set[Path]) -> dict[Path, Facts]:
        found: defaultdict[Path, Facts] = defaultdict(Facts)
        own: defaultdict[Path, Facts] = defaultdict(Facts)
        for path, facts in self.code.items():
            own[path.parent] |= facts
        for directory, facts in own.items():
            for above in (directory, *directory.parents):
                found[above] |= facts
                if above in ends:
                    break
        return found

    @cached_property
    def _chains(self) -> Chains:
        return Chains(self.documents)

    @cached_property
    def _hosts(self) -> Hosts:
        return Hosts(self.documents, self.requiring, self.code, self.paths, self._chains)

    @cached_property
    def _names(self) -> dict[Path, set[str]]:
        """The distributions that each file requires."""
        return {path: required_names(documents) for path, documents in self.documents.items()}

    def needs(self) -> dict[Path, Needs]:
        """Return what is needed of the files that require Petastorm, and what holds them back."""
        found: dict[Path, Needs] = {}
        for path in sorted(self.requiring):
            together = self._chains.together(path)
            if is_code(path):
                one = self._of_notebook(path, together)
            else:
                one = self._with_pages(path, self._of_code(path, together))
                together = together | self._bringing(path, one.uses)
            is_installed = one.moved or not one.importers
            own = set().union(*map(own_extras, self.documents[path]))
            extras = {*one.uses, *one.extras, *one.wanted.extras, *own}
            held = self._held(path, together, extras) if is_installed else None
            is_free = is_installed and not self._hosts.is_one_new(together)
            if hosts := self._hosts.old(path) if is_free else ():
                held = held or self._hosts.reason(hosts[0])
                together = together.union(hosts)
            found[path] = replace(one, held=held, together=is_installed)
            for other in together - self.requiring if is_installed else ():
                before = found.get(other, Needs())
                uses = tuple(sorted({*before.uses, *extras}))
                found[other] = replace(before, uses=uses, together=True)
        for host, files in self._running().items():
            runs = frozenset(path for path in files if self._hosts.is_named(path))
            found[host] = replace(found.get(host, Needs()), together=True, runs=runs)
        for path in sorted(self.setting - self.requiring):
            code = self._of_code(path, {path})
            before = found.get(path, Needs())
            found[path] = replace(before, importers=code.importers, moved=code.moved)
        return found

    def _with_pages(self, path: Path, needs: Needs) -> Needs:
        """Return the needs of a list with the pages that are made where it is installed.

        Where a list is called so, it is for documentation, and no other one is.
        """
        lists = (one for one in self.requiring if not is_code(one))
        of_pages = {one for one in lists if _DOCS.search("/".join(one.parts[-2:]))}
        if of_pages and path not in of_pages:
            return needs
        own = [one for one in self.pages if path in of_pages or path.parent in one.parents]
        if not own:
            return needs
        has_code = self._anchor(path)[0] is not None
        importers = (*needs.importers, *map(str, sorted(own)))
        return replace(needs, importers=importers, moved=has_code and needs.moved)

    def _running(self) -> dict[Path, set[Path]]:
        """Return code that uses mdstorm by its hosts, where all that are told of are too old."""
        found: defaultdict[Path, set[Path]] = defaultdict(set)
        for path, facts in self.code.items():
            for host in self._hosts.old(path) if facts.is_moved else ():
                found[host].add(path)
        return found

    def _of_notebook(self, path: Path, together: set[Path]) -> Needs:
        """Return what a notebook needs of what it installs itself, by its own code."""
        listed = set().union(*(self._names[one] for one in together))
        plain = Needs(self.settings.wanted, self.settings.index)
        facts = Facts()
        for one in self._chains.of_one_run(path):
            facts |= self.code.get(one, Facts())
        return notebook_needs(facts, listed, plain)

    def _of_code(self, path: Path, together: set[Path]) -> Needs:
        """Return what the code that a file belongs to needs of it."""
        anchor, facts = self._anchor(path)
        settings = self.settings
        is_constraint = self._chains.is_constraint(path)
        plain = Needs(settings.wanted, settings.index, is_constraint=is_constraint)
        if anchor is None:
            return plain
        listed = set().union(*(self._names[one] for one in together))
        around = listed.union(
            *(
                names
                for one, names in self._names.items()
                if anchor in one.parents and not is_code(one)
            ),
            *(provided_by(self.documents[one]) for one in self.documents if anchor in one.parents),
        )
        if facts.on_databricks or self._on_databricks:
            around |= set(EXTRAS["spark"])
        extras = needed_extras(facts, around)
        named = {extra for extra in extras if not all(is_in(lib, around) for lib in EXTRAS[extra])}
        brought = listed | {lib for extra in named for lib in EXTRAS[extra]}
        return replace(
            plain,
            extras=tuple(sorted(named)),
            uses=tuple(sorted(extras)),
            beside=tuple(
                self._lost(path, facts, brought | (around if "pyspark" in around else set()))
            ),
            importers=tuple(map(self._said, self._importers(facts))),
            upper_bounds=upper_bounds(self._bounding(path, together)),
            moved=facts.is_moved or not facts.keeps,
        )

    def _bounding(self, path: Path, together: set[Path]) -> Iterator[Pin]:
        """Yield the pins beside a requirement, but for those of other files that mdstorm raises."""
        for other in together:
            pins = self._chains.pins(other)
            raised = [] if other == path else [one.pin for one in conflicts_of(pins, set())]
            yield from (pin for pin in pins if pin not in raised)

    @cached_property
    def _on_databricks(self) -> bool:
        """Whether a bundle, a job or a cluster of Databricks is defined, which brings Spark."""
        return any(path.name == "databricks.yml" for path in self.documents) or any(
            "spark_version" in one.text
            for documents in self.documents.values()
            for one in documents
            if one.kind in ("cluster", "text")
        )

    def _anchor(self, path: Path) -> tuple[Path | None, Facts]:
        """Return the nearest directory above a file with code that uses Petastorm or mdstorm."""
        for below in (self._own, self._below):
            for directory in path.parents:
                facts = below.get(directory, Facts())
                if facts.is_moved or facts.keeps:
                    return directory, facts
        return None, Facts()

    def _bringing(self, path: Path, extras: Iterable[str]) -> set[Path]:
        """Return the other files of the project that bring in what some extras stand for."""
        anchor, _ = self._anchor(path)
        libraries = {one for extra in extras for one in EXTRAS[extra]} - {"pandas"}
        return {
            other
            for other, names in self._names.items()
            if anchor in other.parents and names & libraries and not is_code(other)
        }

    def _importers(self, facts: Facts) -> Iterable[Path]:
        """Return the files that go on importing Petastorm: of some code, or imported by it."""
        for path in self._keeping:
            if path in facts.keeps or facts.imports & {
                path.stem,
                *(above.name for above in path.parents),
            }:
                yield path

    def _said(self, path: Path) -> str:
        """Return a file that goes on importing Petastorm, and by way of what."""
        facts = self.code.get(path, Facts())
        if path in facts.through:
            return f"{path} (by way of Horovod's Spark estimators)"
        return f"{path}{FALLBACK}" if path in facts.falls_back else str(path)

    @cached_property
    def _keeping(self) -> list[Path]:
        return sorted(path for facts in self.code.values() for path in facts.keeps)

    def _lost(self, path: Path, facts: Facts, brought: set[str]) -> Iterable[str]:
        """Return what the code imports and Petastorm alone has brought in."""
        tables = dict(BROUGHT)
        for document in self.documents[path]:
            for extra in petastorm_extras(document):
                tables |= BROUGHT_BY_EXTRAS.get(extra, {})
        for name, modules in tables.items():
            if facts.imports & set(modules) and not is_in(name, brought):
                yield name

    def _held(self, path: Path, together: set[Path], extras: set[str]) -> str | None:
        """Return a pin of a file that is installed with another one, in words."""
        for other in sorted(together if is_code(path) else together - {path}):
            if any(is_compiled_from(one.text, other, path) for one in self.documents[other]):
                continue  # it is compiled again once its source has moved
            for conflict in conflicts_of(self._chains.pins(other), extras):
                where = "this notebook" if other == path else other
                return f"`{conflict.shown}` of {where}: {conflict.needed}"
        return None
