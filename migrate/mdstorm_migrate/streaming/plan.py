"""The plan for one module: which converters become directories, with all edits that belong to it.

All edits are one group: they are applied together or not at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mdstorm_migrate.edits import Edit, EditError, Finding, apply_edits
from mdstorm_migrate.fallbacks import is_fallback_import
from mdstorm_migrate.imports import ImportedName, imported_names, shadowed
from mdstorm_migrate.module import PythonModule, dotted
from mdstorm_migrate.streaming.converters import Converter, converters
from mdstorm_migrate.streaming.directory import Directory, DirectoryError, find_directory
from mdstorm_migrate.streaming.emitted import block_of, imports_of, taken_names
from mdstorm_migrate.streaming.loaders import TRANSFORMED, LoaderCall, loader_call
from mdstorm_migrate.streaming.makers import maker_expression, maker_obstacle
from mdstorm_migrate.streaming.placement import PlaceError, find_place, import_changes
from mdstorm_migrate.streaming.shards import ADVICE

__all__ = ["Plan", "found_by", "plan_of"]

GROUP = "streaming"
DIRECTORY = "mds_directory"
_CONVERTER_CLASS = frozenset(
    {
        "petastorm.spark.SparkDatasetConverter",
        "petastorm.spark.spark_dataset_converter.SparkDatasetConverter",
    }
)
_TRANSFORM = frozenset({"petastorm.TransformSpec", "petastorm.transform.TransformSpec"})


@dataclass
class Plan:
    """What becomes of the converters of a module.

    Attributes
    ----------
    edits : list of Edit
    findings : list of Finding
        Why a converter stays with Petastorm.
    """

    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@lru_cache(maxsize=1)
def plan_of(module: PythonModule) -> Plan:
    """Return the plan for a module."""
    return _Planner(module).plan()


class _Planner:
    def __init__(self, module: PythonModule) -> None:
        self.module = module
        self.found = converters(module)
        self.calls: dict[ast.Call, LoaderCall] = {}
        self.helpers: set[str] = set()
        self.consumed: set[ast.AST] = set()
        self.edits: list[Edit] = []

    @property
    def possible(self) -> list[Converter]:
        """Converters that nothing stands in the way of."""
        return [one for one in self.found if not one.obstacles]

    def plan(self) -> Plan:
        for converter in self.found:
            self._check(converter)
        self._check_transforms()
        directory = self._directory()
        if directory is not None and self.possible:
            try:
                self._turn(directory)
                apply_edits(self.module.text, self.edits)
            except EditError:
                self._give_up("what would change stands within each other")
            except PlaceError as error:
                self._give_up(str(error))
        return Plan(self.edits, list(self._findings()))

    def _give_up(self, reason: str) -> None:
        for converter in self.possible:
            converter.obstacles.append((converter.place, reason))
        self.edits = []

    # What stands in the way

    def _check(self, converter: Converter) -> None:
        for call in converter.makers:
            reason = maker_obstacle(call)
            if reason is not None:
                converter.obstacles.append((call, reason))
        for call in converter.loaders:
            self.calls[call] = loader_call(self.module, call)
            converter.obstacles += self.calls[call].obstacles
        for call in converter.deletes:
            if call.args or call.keywords:
                converter.obstacles.append((call, "what it deletes cannot be told"))

    def _specs(self) -> list[ast.Call]:
        return [call for call, path in self.module.calls if path in _TRANSFORM]

    def _check_transforms(self) -> None:
        """Transforms change for all that use them, or for none."""
        users = [one for one in self.found if any(self._transforms(one))]
        names = [one for one in self._names() if one.imports[0].target in _TRANSFORM]
        callees = {call.func for call in self._specs()}
        is_used_otherwise = any(use.node not in callees for name in names for use in name.uses)
        other = any(
            keyword.arg == "transform_spec"
            for call, _ in self.module.calls
            if call not in self.calls
            for keyword in call.keywords
        )
        if not self._specs():
            reason = "the transform is made outside of this file"
        elif is_used_otherwise or other or any(one.obstacles for one in users):
            reason = "its transform is used by what stays with Petastorm"
        else:
            return
        for one in users:
            one.obstacles.append((one.place, reason))

    def _transforms(self, converter: Converter) -> Iterator[ast.expr]:
        for call in converter.loaders:
            if self.calls[call].transform is not None:
                yield call

    def _directory(self) -> Directory | None:
        makers = [call for one in self.possible for call in one.makers]
        if not makers:
            return None
        try:
            directory = find_directory(self.module, makers)
        except DirectoryError as error:
            self._give_up(str(error))
            return None
        for converter in self.possible:
            if directory.argument == "remote" and converter.deletes:
                reason = "its dataset is deleted, which is not on a disk of this machine"
                converter.obstacles.append((converter.deletes[0], reason))
        self._check_transforms()
        self._check_names()
        return directory

    def _check_names(self) -> None:
        """New names must not hide others."""
        taken = taken_names(self.module, [DIRECTORY])
        if taken:
            self._give_up(f"the name `{taken[0]}` is taken, which the new code would use")

    # What changes

    def _turn(self, directory: Directory) -> None:
        for converter in self.possible:
            for call in converter.makers:
                self._turn_maker(call)
            for call in converter.loaders:
                self._turn_loader(self.calls[call], directory.argument)
            for length in converter.lengths:
                self._turn_length(length, directory.argument)
            for call in converter.deletes:
                self._edit("PM305", call, f"shutil.rmtree({self._receiver(call)})", "delete it")
                self.helpers.add("shutil")
        if any(one.transform is not None for one in self._turned()):
            for call in self._specs():
                message = "a transform becomes a function that makes batches"
                if self.calls.keys().isdisjoint(self.module.ancestors(call)):
                    self._edit("PM304", call.func, TRANSFORMED, message)
                self._consume(call.func)
                self.helpers.add(TRANSFORMED)
        self._turn_annotations()
        self._turn_directory(directory)
        self._turn_imports()

    def _turned(self) -> Iterator[LoaderCall]:
        for converter in self.possible:
            yield from (self.calls[call] for call in converter.loaders)

    def _edit(self, rule: str, node: ast.AST, text: str, message: str) -> None:
        self.edits.append(Edit(rule, "review", *self.module.span(node), text, message, GROUP))

    def _consume(self, node: ast.AST) -> None:
        found = dotted(node)
        if found is not None:
            self.consumed.add(found[0])

    def _receiver(self, call: ast.Call) -> str:
        assert isinstance(call.func, ast.Attribute)
        return self.module.source_of(call.func.value)

    def _turn_maker(self, call: ast.Call) -> None:
        text = maker_expression(self.module, call, DIRECTORY)
        self._edit("PM301", call, text, "a DataFrame becomes an MDS dataset of MosaicML Streaming")
        self._consume(call.func)
        self.helpers.add("write_mds")

    def _turn_loader(self, call: LoaderCall, place: str) -> None:
        rule, message = "PM302", "a loader becomes a StreamingDataLoader over a StreamingDataset"
        if call.shards:
            rule, message = "PM303", f"{message}; its share is that of RANK and WORLD_SIZE"
        specs = [spec.func for spec in self._specs()]
        self._edit(rule, call.call, call.expression(self.module, place, specs), message)
        self.helpers.update(call.helpers())

    def _turn_length(self, node: ast.expr, place: str) -> None:
        name = node.args[0] if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
        text = f"StreamingDataset({place}={self.module.source_of(name)}).size"
        self._edit("PM305", node, text, "the number of samples, of all ranks")
        self.helpers.add("StreamingDataset")

    def _turn_annotations(self) -> None:
        """What was a converter is the directory of a dataset, a string."""
        if len(self.possible) < len(self.found):
            return
        for name in self._names():
            for use in name.uses:
                if use.path in _CONVERTER_CLASS and _is_annotation(self.module, use.node):
                    self._edit("PM301", use.node, "str", "a converter becomes a directory")
                    self._consume(use.node)

    def _turn_directory(self, directory: Directory) -> None:
        write = directory.write
        value = self.module.source_of(write.value)
        message = "the parent cache directory becomes the one to write datasets to"
        statement = self.module.statement(write.call)
        if len(self.possible) == len(self.found):
            self._edit("PM301", statement, f"{DIRECTORY} = {value}", message)
            self._consume(write.key)
            return
        start, _ = self.module.span(statement)
        text = f"{DIRECTORY} = {value}{self.module.separator(statement)}"
        self.edits.append(Edit("PM301", "review", start, start, text, message, GROUP))
        self._edit("PM301", write.value, DIRECTORY, message)

    def _names(self) -> Sequence[ImportedName]:
        return imported_names(self.module)

    def _turn_imports(self) -> None:
        gone: dict[ast.stmt, set[ast.alias]] = {}
        statements = []
        for name in self._names():
            used = [use for use in name.uses if use.name in self.consumed]
            is_gone = self._is_gone(name)
            for binding in name.imports if used or is_gone else ():
                assert binding.statement is not None
                assert isinstance(binding.node, ast.alias)
                statements += [binding.statement] if used else []
                if shadowed(self.module, binding):
                    raise PlaceError("a file beside it hides the library")
                if is_fallback_import(self.module, binding):
                    raise PlaceError("its import is the fallback of one from mdstorm")
                if is_gone:
                    gone.setdefault(binding.statement, set()).add(binding.node)
        nodes = [*self.consumed, *self.calls]
        place = find_place(self.module, statements, nodes)
        blocks = block_of(self.helpers)
        message = "import MosaicML Streaming, and define what it lacks"
        for change in import_changes(self.module, place, gone, imports_of(self.helpers), blocks):
            span = change.start, change.stop
            self.edits.append(Edit("PM301", "review", *span, change.text, message, GROUP))

    def _is_gone(self, name: ImportedName) -> bool:
        """Whether nothing needs an imported name any more."""
        if name.texts or re.search(rf"""["']{name.name}["']""", self.module.text):
            return False
        if name.uses:
            return all(use.name in self.consumed for use in name.uses)
        path = self.module.document.path
        is_package = path is not None and path.name == "__init__.py"
        return name.imports[0].target in _CONVERTER_CLASS and not is_package

    # What stays

    def _findings(self) -> Iterator[Finding]:
        seen = set()
        for converter in self.found:
            for node, reason in converter.obstacles:
                statement = self.module.statement(node)
                if (statement, reason) not in seen:
                    seen.add((statement, reason))
                    rule = "PM303" if reason == ADVICE else "PM306"
                    remedy = f"stays with Petastorm: {reason}"
                    span = self.module.span(node)
                    yield Finding(rule, "manual", *span, reason, remedy)


def _is_annotation(module: PythonModule, node: ast.expr) -> bool:
    parent = module.scopes.parents[node]
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        return node not in (*parent.decorator_list, *parent.args.defaults, *parent.args.kw_defaults)
    return isinstance(parent, ast.AnnAssign) and parent.annotation is node


def found_by(module: PythonModule, code: str) -> Iterator[Edit | Finding]:
    """Yield the edits and findings of a rule."""
    plan = plan_of(module)
    found: list[Edit | Finding] = [*plan.edits, *plan.findings]
    yield from (one for one in found if one.rule == code)
