"""A machine that runs the commands of a project as far as they install packages and run Python.

It interprets the few forms of commands that the law about projects generates: a program runs if
the libraries that its imports need are installed. Nothing here is shared with the migration.
"""

import ast
import configparser
import json
import posixpath
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What installs Petastorm 0.12.1 and its extras with it.
_PETASTORM = {
    "": "dill diskcache future numpy packaging pandas psutil pyspark pyzmq pyarrow six fsspec",
    "opencv": "opencv-python",
    "tf": "tensorflow",
    "torch": "torch torchvision",
}
#: The distributions of modules that programs import, and what modules of the libraries import.
_DISTRIBUTIONS = {
    **{one: one for one in ("petastorm", "mdstorm", "pandas", "pyspark", "numpy", "six", "torch")},
    "mdstorm.pytorch": "torch",
    "mdstorm.spark": "pyspark",
    "petastorm.pytorch": "torch",
}
_SCRIPTS = {
    "mdstorm-generate-metadata.py": "mdstorm",
    "petastorm-copy-dataset.py": "petastorm",
    "petastorm-generate-metadata.py": "petastorm",
    "petastorm-throughput.py": "petastorm",
}
_CHECKOUT = "/src"


class RunError(Exception):
    """A command that fails."""


@dataclass
class Machine:
    """A machine, or an image.

    Attributes
    ----------
    texts : mapping of str to str
        The files of the project, by their paths in it.
    files : dict of str to str
        The files that the machine has, by their paths there, and their paths in the project.
    folder : str
        The current directory.
    installed : set of str
        Names of distributions.
    used : set of str
        The files of the project from which it installed packages or ran commands.
    command : list of str or None
        What an image runs.
    """

    texts: Mapping[str, str]
    files: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    installed: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    command: list[str] | None = None

    @classmethod
    def with_checkout(cls, texts: Mapping[str, str]) -> "Machine":
        """Return a machine with the whole project in its current directory."""
        return cls(texts, {f"{_CHECKOUT}/{path}": path for path in texts}, _CHECKOUT)

    def built_on(self) -> "Machine":
        """Return a machine with the same files and packages."""
        return replace(self, files={**self.files}, installed={*self.installed})

    def _at(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.folder, path))

    def _text(self, path: str) -> str:
        """Return the text of a file; commands and lists in it are used."""
        place = self._at(path)
        if place not in self.files:
            raise RunError(f"no file {path}")
        self.used.add(self.files[place])
        return self.texts[self.files[place]]

    # Commands

    def shell(self, script: str) -> None:
        """Run lines of a script, each of which must succeed."""
        folder = self.folder
        for line in re.sub(r"\\\n", " ", script).splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                self._line(line)
        self.folder = folder

    def _line(self, line: str) -> None:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words, operator, failed = [], "", None
        for word in [*lexer, ";"]:
            if word not in ("&&", "||", ";"):
                words.append(word)
                continue
            if words and (failed is None) == (operator != "||"):
                try:
                    self.run(words)
                    failed = None
                except RunError as error:
                    failed = error
            if failed is not None and word == ";":
                raise failed
            words, operator = [], word

    def run(self, words: list[str]) -> None:
        """Run one command."""
        match words:
            case ["cd", folder]:
                self.folder = self._at(folder)
            case ["bash" | "sh", "-c" | "-ec", script]:
                self.shell(script)
            case ["bash" | "sh", path]:
                self.shell(self._text(path))
            case ["make", "-C", folder, target]:
                outside, self.folder = self.folder, self._at(folder)
                self._make(target)
                self.folder = outside
            case ["make", target]:
                self._make(target)
            case ["python", "-m", "pip", *arguments] | ["pip" | "pip3", *arguments]:
                self._pip(arguments)
            case ["conda", "env", "create", "-f", path]:
                self._conda(path)
            case ["python" | "python3", "-c", code]:
                self._program(code, self.folder)
            case ["python" | "python3", "-m", module, *_]:
                self._module(module, self.folder, set())
            case ["python" | "python3", path, *_]:
                self._program(self._source(path), posixpath.dirname(self._at(path)))
            case [script, *_] if script in _SCRIPTS:
                self._need(_SCRIPTS[script], script)
            case ["echo" | "export" | "set" | "mkdir", *_]:
                pass
            case _:
                raise AssertionError(f"a form of command that this does not know: {words}")

    def _make(self, target: str) -> None:
        targets = dict(make_targets(self._text("Makefile")))
        before, recipe = targets[target]
        for one in before:
            self._make(one)
        for line in recipe.splitlines():  # each in its own shell
            self.shell(line)

    # What is installed

    def _pip(self, arguments: list[str]) -> None:
        if arguments[0] == "show":
            self._need(arguments[-1], "pip show")
            return
        words = iter(arguments[1:])
        for word in words:
            if word in ("-r", "-c"):
                self._list(next(words), is_constraint=word == "-c")
            elif word == "-e" or word.startswith((".", "/")):
                self._project(next(words) if word == "-e" else word)
            elif not word.startswith("-"):
                self._require(word)

    def _require(self, text: str) -> None:
        one = Requirement(text)
        self.installed |= {one.name, *_with(one.name, one.extras)}

    def _list(self, path: str, *, is_constraint: bool = False) -> None:
        text, folder = self._text(path), posixpath.dirname(path)
        for line in text.splitlines() if not is_constraint else ():
            line = re.sub(r"(^|\s)#.*", "", line).strip()
            if line.startswith("-r "):
                self._list(posixpath.join(folder, line[3:].strip()))
            elif line:
                self._require(line)

    def _project(self, target: str) -> None:
        found = re.fullmatch(r"(?P<folder>[^\[]*)(?:\[(?P<extras>[\w,-]+)\])?", target)
        assert found is not None
        folder, extras = found["folder"], (found["extras"] or "").split(",")
        for name, read in (("pyproject.toml", _in_pyproject), ("setup.cfg", _in_setup_cfg)):
            path = posixpath.join(folder, name)
            if self._at(path) in self.files:
                needed = read(self._text(path))
                for one in ["", *extras]:
                    for text in needed.get(one, ()):
                        self._require(text)
                return
        raise RunError(f"no project in {folder}")

    def _conda(self, path: str) -> None:
        for one in yaml.safe_load(self._text(path))["dependencies"]:
            if isinstance(one, dict):
                for text in one["pip"]:
                    self._require(text)
            elif (name := re.split(r"[=<> ]", one)[0]) != "mdstorm":  # no channel has it
                self.installed |= {name, *_with(name, set())}

    # Programs

    def _need(self, name: str, what: str) -> None:
        if name not in self.installed:
            raise RunError(f"{what} needs {name}")

    def _source(self, path: str) -> str:
        place = self._at(path)
        if place not in self.files:
            raise RunError(f"no file {path}")
        return self.texts[self.files[place]]

    def _program(self, code: str, folder: str, done: set[str] | None = None) -> None:
        """Import what a program imports."""
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{one.name}" for one in node.names)]
            else:
                continue
            for name in names:
                self._module(name, folder, done if done is not None else set())

    def _module(self, name: str, folder: str, done: set[str]) -> None:
        root, stem = name.partition(".")[0], posixpath.join(folder, name.replace(".", "/"))
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in self.files:
                if path not in done:
                    done.add(path)
                    self._program(self.texts[self.files[path]], folder, done)
                return
        if name.startswith("mdstorm.") and not _is_in_mdstorm(name):
            raise RunError(f"mdstorm has no {name}")
        for one, distribution in _DISTRIBUTIONS.items():
            if one == root or f"{name}.".startswith(f"{one}."):
                self._need(distribution, name)


def _is_in_mdstorm(name: str) -> bool:
    """Whether mdstorm has a module, or the module above it, which may have the name."""
    parts = name.split(".")[1:]
    (folder,) = map(Path, find_spec("mdstorm").submodule_search_locations)
    return any(
        path.with_suffix(".py").exists() or path.is_dir()
        for path in (folder.joinpath(*parts), folder.joinpath(*parts[:-1]))
    )


def _with(name: str, extras: set[str]) -> set[str]:
    """Return the distributions that are installed with one, and its extras."""
    if name == "petastorm":
        return {one for extra in ("", *extras) for one in _PETASTORM.get(extra, "").split()}
    found = map(Requirement, requires("mdstorm") or [] if name == "mdstorm" else [])
    return {
        one.name
        for one in found
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
    }


def _in_pyproject(text: str) -> dict[str, list[str]]:
    project = tomllib.loads(text).get("project", {})
    return {"": project.get("dependencies", []), **project.get("optional-dependencies", {})}


def _in_setup_cfg(text: str) -> dict[str, list[str]]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    found = {"": parser.get("options", "install_requires", fallback="").split("\n")}
    if parser.has_section("options.extras_require"):
        found |= {key: value.split("\n") for key, value in parser.items("options.extras_require")}
    return {key: [one for one in ones if one.strip()] for key, ones in found.items()}


def make_targets(text: str) -> Iterator[tuple[str, tuple[list[str], str]]]:
    """Yield the targets of a Makefile, with what each one depends on, and its recipe."""
    for found in re.finditer(r"^(\w[\w-]*):([^\n=]*)\n((?:\t[^\n]*\n)*)", text, re.MULTILINE):
        yield found[1], (found[2].split(), found[3].replace("\t", ""))


# What runs in a project


def runnables(texts: Mapping[str, str]) -> Iterator[tuple[str, str, Callable[[], Machine]]]:
    """Yield what can be run in a project: a name, the file, and what runs it.

    The latter returns the machine, or raises `RunError`.
    """
    for path, text in texts.items():
        name = posixpath.basename(path)
        kind = "workflow" if ".github/workflows/" in path else name
        yield from (
            (f"{path}: {part}", path, run)
            for part, run in _READERS.get(kind, _READERS.get(posixpath.splitext(name)[1], _none))(
                texts, path, text
            )
        )


Runs = Iterator[tuple[str, Callable[[], Machine]]]


def _none(texts: Mapping[str, str], path: str, text: str) -> Runs:
    return iter(())


def _script(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run() -> Machine:
        machine = Machine.with_checkout(texts)
        machine.run(["bash", path])
        return machine

    yield "", run


def _makefile(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run(target: str) -> Machine:
        machine = Machine.with_checkout(texts)
        machine.run(["make", "-C", posixpath.dirname(path) or ".", target])
        return machine

    for target, _ in make_targets(text):
        yield target, lambda target=target: run(target)  # type: ignore[misc]


def _workflow(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run(job: dict[str, Any]) -> Machine:
        machine = Machine.with_checkout(texts)
        folder = job.get("defaults", {}).get("run", {}).get("working-directory", ".")
        for step in job["steps"]:
            machine.folder = posixpath.join(_CHECKOUT, step.get("working-directory", folder))
            machine.shell(step.get("run", ""))
        return machine

    for name, job in yaml.safe_load(text)["jobs"].items():
        yield name, lambda job=job: run(job)  # type: ignore[misc]


def _gitlab(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run(lines: list[str]) -> Machine:
        machine = Machine.with_checkout(texts)
        for line in lines:
            machine._line(line)
        return machine

    found = yaml.safe_load(text)
    before = found.get("before_script", [])
    for name, job in found.items():
        if isinstance(job, dict) and "script" in job:
            lines = [*job.get("before_script", before), *job["script"]]
            yield name, lambda lines=lines: run(lines)  # type: ignore[misc]


def _tox(texts: Mapping[str, str], path: str, text: str) -> Runs:
    parser = configparser.ConfigParser()
    parser.read_string(text)

    def run(section: str) -> Machine:
        machine = Machine.with_checkout(texts)
        machine.folder = posixpath.dirname(f"{_CHECKOUT}/{path}")

        def value(key: str) -> str:
            return parser.get(section, key, fallback=parser.get("testenv", key, fallback=""))

        for line in value("deps").strip().splitlines():
            machine.run(["pip", "install", *line.split()])
        if value("skip_install") != "true":
            machine.run(["pip", "install", "."])
        for line in value("commands").strip().splitlines():
            machine._line(line)
        return machine

    for section in parser.sections():
        if section.startswith("testenv"):
            yield section, lambda section=section: run(section)  # type: ignore[misc]


def image(
    texts: Mapping[str, str], path: str, context: str | None = None, target: str = ""
) -> Machine:
    """Build the image of a Dockerfile."""
    context = posixpath.dirname(path) if context is None else posixpath.normpath(context)
    within = "" if context in ("", ".") else f"{context}/"
    stages: dict[str, Machine] = {}
    machine = Machine(texts)
    for line in re.sub(r"\\\n", " ", texts[path]).splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "FROM":
                if target and target in stages:
                    break
                base, *name = re.split(r" (?:as|AS) ", rest)
                machine = stages[base].built_on() if base in stages else Machine(texts)
                machine.used.add(path)
                stages[name[0] if name else str(len(stages))] = machine
            case "WORKDIR":
                machine.folder = machine._at(rest)
            case "COPY" if rest.startswith("--from="):
                machine.installed |= stages[rest.split()[0].removeprefix("--from=")].installed
            case "COPY":
                *sources, to = rest.split()
                for source in sources:
                    _copy(machine, within, source, to, is_several=len(sources) > 1)
            case "RUN":
                machine.shell(rest)
            case "CMD" | "ENTRYPOINT":
                is_list = rest.startswith("[")
                machine.command = json.loads(rest) if is_list else ["sh", "-c", rest]
            case "" | "#":
                pass
            case _:
                raise AssertionError(f"an instruction that this does not know: {line}")
    return machine


def _copy(machine: Machine, within: str, source: str, to: str, *, is_several: bool) -> None:
    """Copy a file or a folder into an image."""
    start = posixpath.normpath(within + source.lstrip("/"))
    target = machine._at(to)
    found = False
    for one in machine.texts:
        if one == start:
            is_folder = to.endswith("/") or to == "." or is_several
            name = posixpath.join(target, posixpath.basename(one)) if is_folder else target
        elif start == "." or one.startswith(f"{start}/"):
            name = posixpath.join(target, posixpath.relpath(one, start))
        else:
            continue
        machine.files[name] = one
        found = True
    if not found:
        raise RunError(f"no file {source} to copy")


def _started(machine: Machine, command: list[str] | str | None = None) -> Machine:
    command = command or machine.command
    if command is not None:
        machine.run(shlex.split(command) if isinstance(command, str) else command)
    return machine


def _dockerfile(texts: Mapping[str, str], path: str, text: str) -> Runs:
    folder, name = posixpath.split(posixpath.dirname(path))
    context = folder if name == "docker" else posixpath.join(folder, name)
    yield "image", lambda: _started(image(texts, path, context))


def _compose(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run(service: dict[str, Any]) -> Machine:
        build = service.get("build")
        if build is None:
            machine = Machine(texts)
        else:
            build = {"context": build} if isinstance(build, str) else build
            context = posixpath.normpath(posixpath.join(posixpath.dirname(path), build["context"]))
            docker = posixpath.normpath(
                posixpath.join(context, build.get("dockerfile", "Dockerfile"))
            )
            machine = image(texts, docker, context, build.get("target", ""))
        for volume in service.get("volumes", ()):
            source, to = volume.split(":")
            _copy(machine, "", source, to, is_several=False)
        machine.folder = service.get("working_dir", machine.folder)
        machine.used.add(path)
        return _started(machine, service.get("command"))

    for name, service in yaml.safe_load(text)["services"].items():
        yield name, lambda service=service: run(service)  # type: ignore[misc]


def _kubernetes(texts: Mapping[str, str], path: str, text: str) -> Runs:
    def run(container: dict[str, Any]) -> Machine:
        is_own = not container["image"].startswith("python:")
        machine = image(texts, "Dockerfile") if is_own else Machine(texts)
        machine.used.add(path)
        return _started(machine, [*container.get("command", ()), *container.get("args", ())])

    for document in yaml.safe_load_all(text):
        for container in document["spec"]["template"]["spec"]["containers"]:
            yield container["name"], lambda one=container: run(one)  # type: ignore[misc]


_READERS: Mapping[str, Callable[[Mapping[str, str], str, str], Runs]] = {
    ".gitlab-ci.yml": _gitlab,
    ".sh": _script,
    "Dockerfile": _dockerfile,
    "Makefile": _makefile,
    "docker-compose.yml": _compose,
    "job.yaml": _kubernetes,
    "tox.ini": _tox,
    "workflow": _workflow,
}
