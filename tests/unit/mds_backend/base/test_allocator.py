"""Freed memory is reused without page faults, even after a library lowers malloc's thresholds."""

import os
import sys
from pathlib import Path
from subprocess import check_output

import numpy as np
import pytest
from tests.kit.small_datasets import write_dataset

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and os.confstr("CS_GNU_LIBC_VERSION")),
    reason="other allocators have different thresholds",
)

#: Counts page faults in two passes, after lowering malloc's thresholds as TensorFlow does.
COUNT = """
import ctypes, resource, sys
libc = ctypes.CDLL(None)

def count(one_pass):
    libc.mallopt(-3, 128 << 10)
    libc.mallopt(-1, 128 << 10)
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        one_pass()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
BLOCKS = """
from mdstorm_backend.base.allocator import keep_freed_memory

def one_pass():
    keep_freed_memory()
    for _ in range(40):
        bytearray(1 << 20)
"""
LOADER = """
from mdstorm_backend import StreamingDataset, StreamingDataLoader

source = StreamingDataset(local=sys.argv[1], batch_size=1024, shuffle=True)
loader = StreamingDataLoader(source, 1024)
list(loader)

def one_pass():
    for batch in loader:
        pass
"""
PAGES_OF_BLOCKS = 40 << 8


def _faults(program: str, *arguments: str, **environment: str) -> list[int]:
    command = [sys.executable, "-c", f"{COUNT}{program}\ncount(one_pass)", *arguments]
    return [int(n) for n in check_output(command, env={**os.environ, **environment}).split()]


def test_freed_memory_is_reused_after_malloc_thresholds_were_lowered() -> None:
    assert _faults(BLOCKS)[1] < PAGES_OF_BLOCKS / 100


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072"),
    ],
)
def test_malloc_thresholds_set_in_environment_are_kept(variable: str, value: str) -> None:
    assert min(_faults(BLOCKS, **{variable: value})) >= PAGES_OF_BLOCKS


@pytest.mark.long
def test_loader_passes_reuse_memory_after_malloc_thresholds_were_lowered(
    tmp_path: Path,
) -> None:
    rows = 1 << 19
    columns = {f"x{i}": np.arange(rows, dtype=np.float64) for i in range(8)}
    dataset = write_dataset(tmp_path, columns, dict.fromkeys(columns, "double"))
    pages = rows * len(columns) * 8 >> 12
    assert _faults(LOADER, dataset.url)[1] < pages / 4
