"""Uses of imports: PM101 rewrites imports, PM102 and PM104 uses of the name that they bind.

PM106 is about names and arguments of older versions.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Hashable, Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    OLD_ROOT,
    RENAMED,
    is_mdstorm,
    is_module,
    renamed,
)
from mdstorm_migrate.petastorm.signatures import FIXED_POSITIONS, REMOVED_KEYWORDS, RENAMED_KEYWORDS
from mdstorm_migrate.python.calls import given_arguments, keywords_of_call
from mdstorm_migrate.python.import_actions import Action, action_for, is_fallback_import, moved_to
from mdstorm_migrate.python.imports import ImportedName, imported_names, references_of
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.textual_uses import TextualUse, annotation_uses
from mdstorm_migrate.rules.rule import rule

_BOTH = "the name would refer to both libraries"
#: The beginning of a statement, with the module that it imports from.
_FROM = re.compile(r"(from[\s\\]+)(\w[\w.\s\\]*?)([\s\\]+import\b)")
#: The module in ``import module as name``.
_MODULE = re.compile(r"\A\w[\w.\s\\]*?(?=[\s\\]+as\b)")
#: The comment after a name, and what stands in its place after the last name.
_COMMENT = re.compile(r"[ \t]*,[ \t]*?(?P<comment>(?:[ \t]*#[^\r\n]*)?)(?P<newline>\r\n|\r|\n)?")
_CLOSING = re.compile(r"(?P<comma>,?)(?P<rest>[ \t]*(?:#[^\r\n]*)?)(?=(?P<newline>[\r\n])?)")


@rule("PM101", "Import from mdstorm", "exact", "python")
def imports(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield edits to import statements, and notes for fallback imports."""
    from_imports: dict[ast.ImportFrom, dict[ast.AST, tuple[Binding, Action]]] = {}
    for name in imported_names(module):
        action = action_for(module, name)
        for binding in name.imports:
            if is_fallback_import(module, binding):
                what = "this import stays: another branch imports from mdstorm"
                yield Finding("PM101", "note", *module.span(binding.node), what)
            if isinstance(binding.statement, ast.ImportFrom):
                actions = from_imports.setdefault(binding.statement, {})
                actions[binding.node] = binding, action
            elif action != "keep":
                yield from _import(module, name, action, binding)
    for statement, actions in from_imports.items():
        yield from _from_import(module, statement, actions)
    if (found := _imported_from_both(module)) is not None:
        binding, path = found
        what = f"this file imports `{path}` from both Petastorm and mdstorm"
        remedy = f"{what}: if it compares the two, keep both; otherwise remove one"
        span = module.span(binding.node)
        yield Finding("PM101", "manual", *span, what, remedy, holds=path, because=_BOTH)


@rule("PM102", "Uses of the name petastorm become mdstorm", "exact", "python")
def attributes(module: PythonModule) -> Iterator[Edit]:
    """Yield an edit for each use of the name ``petastorm`` that mdstorm supports."""
    for name in _moved_roots(module):
        for use in name.uses:
            if use.first_missing is None:
                yield _renamed_use("PM102", module.span(use.name), use.path, name.group)


@rule("PM104", "String annotations and type comments name mdstorm", "exact", "python")
def typed_texts(module: PythonModule) -> Iterator[Edit]:
    """Yield an edit for each use of the name ``petastorm`` in text that type checkers read.

    Types that no import reaches are included if all imports in the file move.
    """
    names = imported_names(module)
    uses: list[tuple[TextualUse, Hashable]] = []
    for name in _moved_roots(module):
        uses += [(one, name.group) for one in name.texts]
    if names and not any(action_for(module, name) == "keep" for name in names):
        group = next((name.group for name in names if name.is_root), None)
        uses += [(one, group) for one in annotation_uses(module, None)]
    for use, shared in uses:
        if use.missing is None:
            yield _renamed_use("PM104", (use.start, use.stop), use.path, shared)


def _moved_roots(module: PythonModule) -> Iterator[ImportedName]:
    """Yield the names ``petastorm`` whose uses become ``mdstorm``."""
    for name in imported_names(module):
        if name.is_root and action_for(module, name) in ("move", "both"):
            yield name


def _renamed_use(code: str, span: tuple[int, int], path: str, group: Hashable) -> Edit:
    return Edit(code, "exact", *span, NEW_ROOT, f"`{path}` becomes `{renamed(path)}`", group)


_NUMBERS = {3: "third", 4: "fourth", 6: "sixth"}


@rule("PM106", "Names and arguments of older versions of Petastorm", "review", "python")
def old_api(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield edits for renamed arguments, and findings for renamed imports and removed arguments.

    PM101 moves renamed imports if edits for review are applied. Code with a removed argument only
    runs under an old version of Petastorm, so its imports need review.
    """
    if not module.applies("PM106", "review"):
        for name in imported_names(module):
            for binding in name.imports:
                yield from _renamed_import(module, binding)
    for given in given_arguments(module):
        for keyword, node in keywords_of_call(module, given.call):
            advice = REMOVED_KEYWORDS.get(given.function, {}).get(keyword)
            new = RENAMED_KEYWORDS.get((given.function, keyword))
            if new is not None and node in given.call.keywords:
                start, _ = module.span(node)
                message = f"`{keyword}` is now called `{new}`"
                yield Edit("PM106", "exact", start, start + len(keyword), new, message)
            elif advice is not None:
                what = f"{given.function}() no longer has an argument `{keyword}`"
                yield _old_argument(module, node, what, advice, f"{given.function}({keyword}=)")
        fixed = FIXED_POSITIONS.get(given.function)
        if fixed is not None and len(given.positional) > fixed:
            what = (
                f"Petastorm 0.12 changed the positional arguments of {given.function}() after the "
                f"{_NUMBERS[fixed]}"
            )
            advice = "pass the rest by keyword"
            yield _old_argument(
                module, given.positional[fixed], what, advice, f"{given.function}()"
            )


def _old_argument(
    module: PythonModule, node: ast.AST, what: str, advice: str, holds: str
) -> Finding:
    """Return the finding about an argument that only an old version of Petastorm accepts."""
    remedy = f"{what}: {advice}"
    return Finding("PM106", "manual", *module.span(node), what, remedy, holds=holds)


def _renamed_import(module: PythonModule, binding: Binding) -> Iterator[Finding]:
    alias, statement = binding.node, binding.statement
    if isinstance(statement, ast.ImportFrom) and isinstance(alias, ast.alias):
        new = RENAMED.get((statement.module or "", alias.name))
        if new is not None:
            what = f"`{alias.name}` is now called `{new}`"
            yield Finding("PM106", "review", *module.span(alias), what, holds=alias.name)


def _imported_from_both(module: PythonModule) -> tuple[Binding, str] | None:
    """Return an import from Petastorm of a path that the file also imports from mdstorm, or None.

    Only imports that would move count, except fallbacks, which use only one of the libraries.
    """
    if NEW_ROOT not in module.imported_roots:
        return None
    new = set()
    for binding in module.scopes.bindings:
        target = binding.target or ""
        if is_mdstorm(target):
            old = OLD_ROOT + target.removeprefix(NEW_ROOT)
            uses = references_of(module, binding.name, binding.scope) if is_module(old) else ()
            new |= {module.chain(one.node, old)[1] for one in uses} or {old}
    public = {path: _public(path) for path in new}
    for name in imported_names(module):
        if action_for(module, name) == "keep":
            continue
        for binding in name.imports:
            is_used = is_module(binding.target or "")
            paths = (
                [use.path for use in name.all_uses if use.first_missing is None] if is_used else []
            )
            for path in paths if is_used else [binding.target or ""]:
                if _public(path) in public.values() and not is_fallback_import(module, binding):
                    return binding, path
    return None


def _public(path: str) -> str:
    """Return the first name in a path after its module; for a module, the whole path."""
    parts = path.split(".")
    paths = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((one.rpartition(".")[2] for one in paths if not is_module(one)), path)


def _import(
    module: PythonModule, name: ImportedName, action: Action, binding: Binding
) -> Iterator[Edit]:
    """Yield the edit to one name in ``import a, b as c``."""
    alias, statement = binding.node, binding.statement
    assert isinstance(alias, ast.alias)
    assert statement is not None
    if not is_module(alias.name) and action != "both":
        return
    start, stop = module.span(alias)
    if alias.asname is None:
        new = _plain_import(module, name, action, binding)
    else:
        new = _MODULE.sub(renamed(alias.name), module.text[start:stop], count=1)
    old = " ".join(module.text[start:stop].split())
    shown = ", ".join(" ".join(one.split()) for one in re.split(r";?\s+import\s", new))
    message = f"`import {old}` becomes `import {shown}`"
    if action == "both":
        message = f"`import {renamed(alias.name)}` is added; some uses still need `import {old}`"
    yield Edit("PM101", "exact", start, stop, new, message, name.group)


def _plain_import(
    module: PythonModule, name: ImportedName, action: Action, binding: Binding
) -> str:
    """Return the replacement for ``petastorm`` or ``petastorm.spark`` in an import statement."""
    alias, statement = binding.node, binding.statement
    assert isinstance(alias, ast.alias)
    assert statement is not None
    new = renamed(alias.name) if is_module(alias.name) else NEW_ROOT
    if action == "alias":
        under_old_name = f"{NEW_ROOT} as {OLD_ROOT}"
        if alias.name == OLD_ROOT:
            return under_old_name
        is_kept = len(name.imports) == len(name.scope.bindings[name.name])
        is_kept = is_kept and name.name not in name.scope.deleted_names
        is_bound = is_kept and any(_is_before(module, one, binding) for one in name.imports)
        return new if is_bound else f"{new}{_between(module, statement)}{under_old_name}"
    return f"{alias.name}{_between(module, statement)}{new}" if action == "both" else new


def _between(module: PythonModule, statement: ast.stmt) -> str:
    """Return the text between two imports: a line break if each has its own line, else a comma."""
    alone = isinstance(statement, ast.Import) and len(statement.names) == 1
    return f"{module.separator(statement)}import " if alone else ", "


def _is_before(module: PythonModule, one: Binding, other: Binding) -> bool:
    """Whether `one` has bound the old name in every execution that reaches the import `other`."""
    if not isinstance(one.statement, ast.Import) or other.statement is None:
        return False
    parents = module.scopes.parents
    is_in_same_block = parents.get(one.statement) is parents.get(other.statement)
    is_plain = isinstance(one.node, ast.alias) and one.node.asname is None
    earlier = module.span(one.node) < module.span(other.node)
    return earlier and is_plain and is_in_same_block and not _is_branched(module, other.statement)


def _is_branched(module: PythonModule, statement: ast.stmt) -> bool:
    """Whether the surrounding statement has several blocks of which only one runs."""
    return isinstance(module.scopes.parents.get(statement), ast.If | ast.Try | ast.Match)


def _from_import(
    module: PythonModule, statement: ast.ImportFrom, actions: dict[ast.AST, tuple[Binding, Action]]
) -> Iterator[Edit]:
    """Yield the edit to ``from a import b, c as d``, which moves as a whole or is split."""
    old = statement.module or ""
    parts: dict[str, dict[int, str]] = {}
    is_renamed = False
    for number, alias in enumerate(statement.names):
        source, name = _source(module, *actions[alias])
        parts.setdefault(source, {})[number] = name
        is_renamed |= name != alias.name
    if list(parts) == [old]:
        return
    start, stop = module.span(statement)
    message = _message(old, list(parts))
    head = _FROM.match(module.text, start)
    if len(parts) == 1 and not is_renamed and head is not None:
        yield Edit("PM101", "exact", *head.span(2), next(iter(parts)), message)
        return
    # Imports that stay come first, because a comment above the statement explains why they stay.
    ordered = sorted(parts.items(), key=lambda part: part[0] != old)
    texts = [_part(module, statement, *part) for part in ordered]
    cls: Class = "review" if is_renamed else "exact"
    yield Edit("PM101", cls, start, stop, module.separator(statement).join(texts), message)


def _message(old: str, sources: list[str]) -> str:
    """Return the message about ``from old import …``, whose names now come from `sources`."""
    new = [source for source in sources if source != old]
    if len(sources) == 1:
        return f"`from {old} import …` becomes `from {new[0]} import …`"
    where = " and ".join(f"`{source}`" for source in new)
    what = "what mdstorm has comes" if old in sources else "its names come"
    return f"`from {old} import …` is split: {what} from {where}"


def _source(module: PythonModule, binding: Binding, action: Action) -> tuple[str, str]:
    """Return the module from which a name is imported, and its name there."""
    assert isinstance(binding.node, ast.alias)
    old = binding.imported_module
    if action == "keep":
        return old, binding.node.name
    if binding.name == "*":
        return renamed(old), "*"
    return moved_to(module, binding) or (old, binding.node.name)


def _part(
    module: PythonModule, statement: ast.ImportFrom, source: str, names: dict[int, str]
) -> str:
    """Return a statement that imports some of the names of `statement`, in the same layout.

    A comment stays with the name that it follows.

    Parameters
    ----------
    module : PythonModule
    statement : ast.ImportFrom
    source : str
        The module that the names come from.
    names : dict of int to str
        The position in `statement` of each name, with its name in `source`. The bound names stay
        the same.
    """
    text, (start, stop) = module.text, module.span(statement)
    spans = [module.span(alias) for alias in statement.names]
    after = [text[end:begin] for (_, end), (begin, _) in itertools.pairwise([*spans, (stop, stop)])]
    pieces = [_FROM.sub(rf"\g<1>{source}\g<3>", text[start : spans[0][0]], count=1)]
    for number, name in names.items():
        alias, old = statement.names[number], text[slice(*spans[number])]
        is_same = name == alias.name
        pieces.append(old if is_same else f"{name} as {alias.asname or alias.name}")
        pieces.append(after[number])
    pieces[-1] = _end(after[max(names)], after[-1])
    return "".join(pieces)


def _end(gap: str, end: str) -> str:
    """Return the end of a statement, with the comment in the text that follows its last name."""
    comment, closing = _COMMENT.match(gap), _CLOSING.match(end)
    if comment is None or closing is None or not (closing["newline"] or comment["comment"]):
        return end
    newline = "" if closing["newline"] else comment["newline"]
    return f"{closing['comma']}{comment['comment']}{newline}{end[closing.end('rest') :]}"
