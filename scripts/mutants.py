"""Draw and run mutants: small faults in the code that the tests should detect.

    .venv/bin/python scripts/mutants.py draw --seed 1 250 [FOLDER …]
    .venv/bin/python scripts/mutants.py try --seed 1 40 [FOLDER …]
    .venv/bin/python scripts/mutants.py run [--quick] [--record] [ID …]

``draw`` prints candidates from random lines of code, so that each folder has as many as its lines
deserve. A person keeps those that change what users see, and names the tests that should detect it:
``tests/mutants/mutants.toml``. ``run`` applies each of these to a copy of the repository, and runs
its tests there until one fails. The copy contains the files that Git tracks or would add.

``try`` draws mutants that nobody has seen, and runs the quick tests of the area of each, as
``make quick`` does, and the laws. Of those that live it prints the difference. A person decides
whether such a mutant is equivalent, its code is not needed, or a test is missing.

A mutant is found by its text, wherever its lines have moved to. If its file does not contain the
text exactly once, the mutant is reported as gone: its code has been replaced. The exit code is 1 if
a mutant that was killed, according to the list, is not killed any more.
"""

# ruff: noqa: D102 (the methods of ast.NodeVisitor)

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutants" / "mutants.toml"
PACKAGES = ("compat/mdstorm", "mds_backend/mdstorm_backend", "migrate/mdstorm_migrate")

#: The marks of tests that run first, and of those that run if none of the first fails.
QUICK, SLOW = "not spark_session and not long", "spark_session or long"
#: A run of pytest that takes longer gives no result. A test that takes longer fails, because a
#: mutant may make it wait forever.
SECONDS_PER_RUN, SECONDS_PER_TEST = 1800, 120

#: A failed test in the output of pytest.
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?= - |$)", re.MULTILINE)
#: The tests that have an environment of their own.
TRAINERS = "tests/slow/trainers"

_WORD = re.compile(r"\w+")
#: Programs that the tests of the migration read.
_PROGRAMS = re.compile(r"/wild\d*/\w+/")

#: The folders below tests/ for a folder or file of source, if they do not mirror it.
_AREAS = {
    "compat/mdstorm/_conversion": ["unit/compat/etl", "unit/compat/tables", "edge/cli"],
    "compat/mdstorm/_readers": ["unit/compat/reader", "unit/compat/transforms"],
    "compat/mdstorm/_selection": ["unit/compat/selection", "unit/compat/reader"],
    "compat/mdstorm/_tensorflow": ["unit/compat/tf"],
    "compat/mdstorm/_torch": ["unit/compat/pytorch"],
    "compat/mdstorm/cli": ["edge/cli"],
    "compat/mdstorm/doctor": ["edge/doctor"],
    "compat/mdstorm/reader_impl": ["unit/compat/reader"],
    "mds_backend/mdstorm_backend/cache": ["unit/mds_backend/cache", "unit/mds_backend/datasets"],
    "mds_backend/mdstorm_backend/datasets": [
        "unit/mds_backend/datasets",
        "unit/mds_backend/loaders",
        "unit/compat/selection",
    ],
    "mds_backend/mdstorm_backend/elastic": ["unit/mds_backend/elastic", "unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/format": ["unit/mds_backend/format"],
    "mds_backend/mdstorm_backend/integrations": ["unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/loaders/tf": ["unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/loaders/torch": ["unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/mosaic": ["unit/mds_backend/streaming"],
    "mds_backend/mdstorm_backend/order": ["unit/mds_backend/order", "unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/read": ["unit/mds_backend/read", "unit/mds_backend/loaders"],
    "mds_backend/mdstorm_backend/tables": ["unit/mds_backend/tables", "unit/mds_backend/parquet"],
    "migrate/mdstorm_migrate": ["unit/migrate", "edge/migrate"],
    "migrate/mdstorm_migrate/compare": ["contract/compare"],
}


@dataclass(frozen=True)
class Mutant:
    """A fault: ``after`` in the place of ``before``, which are whole lines of a file."""

    id: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...] = ()  # folders and files, the narrow ones first
    result: str = "unknown"  # at the last run: killed, lived
    by: str = ""  # the first test that killed it

    def applied_to(self, source: str) -> str | None:
        """Return the mutated source, or None if the text is not there exactly once."""
        return source.replace(self.before, self.after) if source.count(self.before) == 1 else None


# Drawing candidates ---------------------------------------------------------------------------

_OTHER: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
}
_OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SIMPLE = ast.Name | ast.Attribute | ast.Subscript
_LOGS = re.compile(r"(\w*log\w*|warnings)\.(debug|info|warning|warn|exception|log)\(")


class Candidates(ast.NodeVisitor):
    """All mutants of a file, as ranges of its bytes and what replaces them."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        self.lines = [0]
        for line in self.source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[tuple[int, int, str]] = []
        self.visit(ast.parse(source))

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self._begin(node) : self._end(node)].decode()

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        self.found.append((self._begin(node), self._end(node), text))

    def _operator(self, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        if type(operator) in _OTHER:
            begin, end = self._end(left), self._begin(right)
            one, other = _OTHER[type(operator)]
            text = self.source[begin:end].decode().replace(one, other, 1)
            self.found.append((begin, end, text))

    def visit(self, node: ast.AST) -> None:
        """Visit nodes that users can notice: no annotations, messages, log lines or imports."""
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            if isinstance(node, ast.Raise):
                self._replace(node, "pass")
            return
        if isinstance(node, ast.Expr) and (
            isinstance(node.value, ast.Constant) or _LOGS.match(self._text(node))
        ):
            return
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = pairwise([node.left, *node.comparators])
        for (left, right), operator in zip(operands, node.ops, strict=True):
            self._operator(left, operator, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._operator(node.values[0], node.op, node.values[1])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool | int):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            self._replace(node, repr(value))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _OTHER_NAMES:
            self._replace(node.func, _OTHER_NAMES[node.func.id])
        if len(node.args) > 1 and all(isinstance(one, _SIMPLE) for one in node.args[:2]):
            first, second = node.args[:2]
            between = self.source[self._end(first) : self._begin(second)].decode()
            swapped = self._text(second) + between + self._text(first)
            self.found.append((self._begin(first), self._end(second), swapped))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replace(node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if self._text(node.test) != "TYPE_CHECKING":
            self._replace(node.test, f"not ({self._text(node.test)})")
            self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._replace(test, "True")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, _SIMPLE):
            self._replace(node.value, "None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")


def draw(number: int, seed: int, folders: Iterable[str]) -> Iterator[Mutant]:
    """Yield one mutant from each of as many random lines of the folders."""
    of_line: defaultdict[tuple[Path, int], list[tuple[int, int, str]]] = defaultdict(list)
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        candidates = Candidates(path.read_text("utf-8"))
        for found in candidates.found:
            of_line[path, candidates.source.count(b"\n", 0, found[0])].append(found)
    random_ = random.Random(seed)
    for path, line in random_.sample(sorted(of_line), number):
        name = str(path.relative_to(ROOT))
        room = path.relative_to(ROOT).with_suffix("").parts[2:]
        before, after = _with_context(path.read_text("utf-8"), *random_.choice(of_line[path, line]))
        yield Mutant(f"{'.'.join(room)}:{line + 1}", name, before, after)


def _with_context(source: str, begin: int, end: int, text: str) -> tuple[str, str]:
    """Return the mutated lines before and after, with as many before them as make them unique."""
    data = source.encode()
    stop = data.index(b"\n", end) + 1
    start = data.rfind(b"\n", 0, begin) + 1
    while data.count(data[start:stop]) > 1:
        start = data.rfind(b"\n", 0, start - 1) + 1
    after = data[start:begin] + text.encode() + data[end:stop]
    return data[start:stop].decode(), after.decode()


def area(file: str) -> list[Path]:
    """Return the folders of tests of a file's area."""
    tests = ROOT / "tests"
    for path in (Path(file), *Path(file).parents):
        if listed := _AREAS.get(str(path)):
            return [tests / folder for folder in listed]
    package, _, *folders = Path(file).parts[:-1]
    mirror = tests.joinpath("unit", package, *(folder.strip("_") for folder in folders))
    return [next(folder for folder in (mirror, *mirror.parents) if folder.is_dir())]


def likely_first(file: str, folders: Iterable[Path]) -> list[str]:
    """Return the five test modules that share most words with a file; rare words count more."""
    words = set(_WORD.findall((ROOT / file).read_text("utf-8")))
    modules = {path for folder in folders for path in folder.rglob("test_*.py")}
    shared = {
        path: words.intersection(_WORD.findall(path.read_text("utf-8")))
        for path in modules
        if not _PROGRAMS.search(str(path))
    }
    common = Counter(word for found in shared.values() for word in found)

    def likelihood(path: Path) -> tuple[bool, float, Path]:
        is_of_file = path.stem == f"test_{Path(file).stem.strip('_')}"
        return is_of_file, sum(1 / common[word] for word in shared[path]), path

    found = sorted(shared, key=likelihood, reverse=True)[:5]
    return [str(path.relative_to(ROOT)) for path in found]


# Running ---------------------------------------------------------------------------------------


#: Marks and tests of one run of pytest.
Stage = tuple[str, Sequence[str]]


def stages_of_list(mutant: Mutant, *, quick: bool) -> list[Stage]:
    """Return what to run for a mutant of the list: its tests, the narrow ones first."""
    marks = (QUICK,) if quick else (QUICK, SLOW)
    return [(mark, [tests]) for mark in marks for tests in mutant.tests]


def stages_of_area(mutant: Mutant) -> list[Stage]:
    """Return what to run for a drawn mutant: most need only the first few modules."""
    folders = area(mutant.file)
    first = likely_first(mutant.file, folders)
    if not mutant.file.startswith("migrate/"):
        folders.append(ROOT / "tests" / "law")
    others = [str(folder.relative_to(ROOT)) for folder in folders]
    return [(QUICK, first), (QUICK, [*others, *(f"--ignore={module}" for module in first)])]


def read_list() -> list[Mutant]:
    """Return the committed mutants."""
    tables = tomllib.loads(LIST.read_text("utf-8"))["mutant"]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


def as_toml(mutants: Iterable[Mutant]) -> str:
    """Return the text of a list of mutants."""
    return "\n".join(_table(mutant) for mutant in mutants)


def _table(mutant: Mutant) -> str:
    lines = ["[[mutant]]"]
    for key, value in asdict(mutant).items():
        quoted = f"'''\n{value}'''" if key in ("before", "after") else _quoted(value)
        lines.append(f"{key} = {quoted}")
    return "\n".join(lines) + "\n"


def _quoted(value: str | Iterable[str]) -> str:
    return json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)


def record(measured: Mutant) -> None:
    """Write a result into the list."""
    mutants = [measured if old.id == measured.id else old for old in read_list()]
    written = LIST.with_suffix(".new")
    written.write_text(as_toml(mutants), "utf-8", newline="\n")
    written.replace(LIST)


def copy_repository(target: Path) -> Path:
    """Copy the files that Git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def run_tests(copy: Path, marks: str, tests: Sequence[str], *options: str) -> tuple[int, str]:
    """Return pytest's exit code and output. The copy's packages are imported instead of ours."""
    paths = [str(copy / package.partition("/")[0]) for package in PACKAGES]
    limit = {"MDSTORM_TEST_SECONDS": str(SECONDS_PER_TEST)}
    variables = {**os.environ, **limit, "PYTHONPATH": os.pathsep.join(paths)}
    of_trainers = any(test.startswith(TRAINERS) for test in tests)
    python = ROOT / ".venv-trainers/bin/python" if of_trainers else sys.executable
    pytest = [python, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*pytest, "-m", marks, *options, *tests],
        cwd=copy,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS_PER_RUN)
    except subprocess.TimeoutExpired:
        return 4, f"pytest did not end in {SECONDS_PER_RUN} s"
    finally:  # also what the tests started, such as Spark
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, output


def measure(copy: Path, mutant: Mutant, stages: Iterable[Stage]) -> tuple[str, str]:
    """Return the result of a mutant, and the test that killed it or why there is no result."""
    path = copy / mutant.file
    source = path.read_bytes() if path.exists() else b""
    mutated = mutant.applied_to(source.decode())
    if mutated is None:
        return "gone", ""
    times = path.stat()
    path.write_text(mutated, "utf-8", newline="\n")
    ran = False
    try:
        for marks, tests in stages:
            code, output = run_tests(copy, marks, tests, "-x")
            failed = FAILED.search(output)
            if code in (1, 2) and failed:
                return "killed", failed[1]
            if code not in (0, 5):  # 5: no test has these marks
                return "unknown", f"exit code {code} of {' '.join(tests)}: {output[-300:]}"
            ran |= code == 0
    finally:  # with its old times, so that Python does not take the mutant's bytecode for it
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return ("lived", "") if ran else ("unknown", "no test ran")


def run(mutants: dict[Mutant, list[Stage]], jobs: int) -> Iterator[tuple[Mutant, str, str]]:
    """Measure mutants, print each result, and yield the mutant, the result and the test."""
    results = {}
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()

    def result(mutant: Mutant, stages: list[Stage]) -> tuple[str, str]:
        copy = copies.get()
        try:
            return measure(copy, mutant, stages)
        finally:
            copies.put(copy)

    with tempfile.TemporaryDirectory() as directory:
        for job in range(jobs):
            copies.put(copy_repository(Path(directory, str(job))))
        with ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(result, *item): item[0] for item in mutants.items()}
            for future in as_completed(futures):
                mutant, (found, by) = futures[future], future.result()
                print(f"{found:8}{mutant.id}  {by}", flush=True)
                results[mutant] = found, by
        killers = sorted({by for found, by in results.values() if found == "killed"})
        failing = failing_tests(copies.get(), killers)
    for mutant, (found, by) in results.items():
        if found == "killed" and by in failing:
            found, by = "unknown", f"{by} also fails without the mutant"
            print(f"{found:8}{mutant.id}  {by}")
        results[mutant] = found, by
    counts = Counter(found for found, _ in results.values())
    print(", ".join(f"{count} {found}" for found, count in counts.most_common()))
    for mutant, (found, by) in results.items():
        yield mutant, found, by


def failing_tests(copy: Path, tests: Sequence[str]) -> set[str]:
    """Return which of the tests fail."""
    of_trainers = [test for test in tests if test.startswith(TRAINERS)]
    others = [test for test in tests if not test.startswith(TRAINERS)]
    return {
        failed
        for group in (of_trainers, others)
        if group
        for failed in FAILED.findall(run_tests(copy, f"({QUICK}) or ({SLOW})", group)[1])
    }


def run_list(ids: list[str], *, quick: bool, jobs: int, record_results: bool) -> int:
    """Run mutants of the list, and return the exit code."""
    mutants = [mutant for mutant in read_list() if mutant.id in ids or not ids]
    stages = {mutant: stages_of_list(mutant, quick=quick) for mutant in mutants}
    lost = []
    for mutant, found, by in run(stages, jobs):
        is_final = found == "killed" or (found == "lived" and not quick)
        if record_results and is_final:
            record(replace(mutant, result=found, by=by))
        if mutant.result == "killed" and found in ("lived", "unknown") and not quick:
            lost.append(mutant.id)
    if lost:
        print("killed before, and not any more:", *lost)
    return 1 if lost else 0


def run_drawn(number: int, seed: int, folders: Iterable[str], jobs: int) -> None:
    """Run mutants that are drawn, and print those that live."""
    stages = {mutant: stages_of_area(mutant) for mutant in draw(number, seed, folders)}
    for mutant, found, _ in run(stages, jobs):
        if found == "lived":
            before, after = mutant.before.splitlines(), mutant.after.splitlines()
            print(*difflib.unified_diff(before, after, mutant.file, n=9, lineterm=""), sep="\n")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_ in {"draw": "print candidates", "try": "draw mutants, and run them"}.items():
        command = commands.add_parser(name, help=help_)
        command.add_argument("number", type=int)
        command.add_argument("--seed", type=int, required=True)
        command.add_argument("--jobs", type=int, default=1)
        command.add_argument("folders", nargs="*", default=PACKAGES)
    command = commands.add_parser("run", help="run the tests on the mutants of the list")
    command.add_argument("ids", nargs="*", help="all, by default")
    command.add_argument("--quick", action="store_true", help="without Spark and long tests")
    command.add_argument("--record", action="store_true", help="write the results into the list")
    command.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.command == "draw":
        print(as_toml(draw(arguments.number, arguments.seed, arguments.folders)))
        return 0
    if arguments.command == "try":
        run_drawn(arguments.number, arguments.seed, arguments.folders, arguments.jobs)
        return 0
    return run_list(
        arguments.ids,
        quick=arguments.quick,
        jobs=arguments.jobs,
        record_results=arguments.record,
    )


if __name__ == "__main__":
    sys.exit(main())
