"""The programs of `make benchmark` start, without the libraries that they compare with."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.kit.programs import run_command, without_session

from mdstorm_backend.errors import MissingDependencyError

_ROOT = Path(__file__).parents[2]
#: `page.py` shows the last run, which `test_pages.py` tests.
_PROGRAMS = set(
    re.findall(r"benchmarks/((?:run|measure)\w*\.py)", (_ROOT / "Makefile").read_text("utf-8"))
)
#: These start many processes, and take as long as hundreds of other tests.
_LONG = {"measure_convert.py", "measure_limits.py", "run.py", "run_peers.py", "run_samples.py"}
_CASES = [
    pytest.param(name, marks=pytest.mark.long if name in _LONG else ())
    for name in sorted(_PROGRAMS)
]


def figures_of(result: Any) -> Iterator[float]:
    """Yield the numbers in a JSON object."""
    if isinstance(result, dict | list):
        for value in result.values() if isinstance(result, dict) else result:
            yield from figures_of(value)
    elif isinstance(result, int | float) and not isinstance(result, bool):
        yield result


@pytest.mark.newest
@pytest.mark.parametrize("name", _CASES)
def test_benchmark_with_smallest_sizes_measures_mdstorm_alone(name: str, tmp_path: Path) -> None:
    program, output = _ROOT / "benchmarks" / name, tmp_path / "results.json"
    options = ["--output", output] if '"--output"' in program.read_text("utf-8") else []
    environment = without_session() | {"MDSTORM_BENCHMARK_SMALLEST": "1"}
    done = run_command(
        sys.executable, program, *options, cwd=tmp_path, env=environment, expect_success=False
    )
    # The exit code is 1 if a target is missed, which says nothing at this size.
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    figures = list(figures_of(json.loads(output.read_text() if options else done.stdout)))
    assert figures
    assert all(figure >= 0 for figure in figures)


@pytest.mark.parametrize("path", sorted((_ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.name)
def test_names_that_benchmark_imports_of_mdstorm_exist(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mdstorm"):
            with suppress(MissingDependencyError):  # of a trainer that is not installed here
                module = import_module(node.module or "")
                assert not [one.name for one in node.names if not hasattr(module, one.name)]


@pytest.mark.parametrize("library", ["pillow", "simplejpeg"])
def test_compared_libraries_decode_with_the_same_versions(library: str) -> None:
    files = [_ROOT / "constraints" / f"{name}.txt" for name in ("dev", "peers", "interop")]
    pins = [re.findall(rf"^{library}==(\S+)", file.read_text("utf-8"), re.M) for file in files]
    assert len({pin for found in pins for pin in found}) == 1
