"""Record programs one after another in this process, with Petastorm or mdstorm."""

import importlib.util
import os
import sys
import tempfile
import warnings
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[3]
RECORDER = ROOT / "migrate" / "mdstorm_migrate" / "compare" / "recorder.py"


def load_recorder() -> ModuleType:
    """Import the recorder from its path, because mdstorm may not be installed."""
    name = "recorder_of_tests"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, RECORDER)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.PatchingFinder().install()
    return sys.modules[name]


def record(source: str, runs: int = 1, examples: int = 0) -> dict[str, Any]:
    """Record a program, and return a single recording with all of its runs."""
    recorder = load_recorder()
    options = Namespace(examples=examples, no_full_pass=False)
    found: dict[str, Any] = {}
    path, argv, cwd = list(sys.path), list(sys.argv), os.getcwd()
    try:
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = Path(folder, "program.py")
                program.write_text(source, "utf-8")
                sys.path[:] = ["", str(ROOT), *path]
                recorder.REGISTRY.__init__()
                np.random.seed()  # noqa: NPY002  # as in a new process
                _, one = recorder.record([str(program), f"{folder}/data"], False, options)
                found = found or dict(one, runs=[])
                found["runs"] += one["runs"]
    finally:
        sys.path[:], sys.argv[:] = path, argv
        os.chdir(cwd)
    return found
