"""Whatever the bytes of a dataset are: an error of ours, never another, never a crash or a bomb."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mds_backend.fuzz.targets import (
    CODECS,
    NAMES,
    attack_compression,
    attack_index,
    attack_shard,
)

few = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("name", NAMES)
@few
@given(randoms)
def test_damaged_shards_are_read_or_reported(name: str, random: Random) -> None:
    attack_shard(name, random)


@pytest.mark.parametrize("name", NAMES)
@few
@given(randoms)
def test_damaged_indexes_are_read_or_reported(name: str, random: Random) -> None:
    attack_index(name, random)


@pytest.mark.parametrize("codec", CODECS)
@few
@given(randoms)
def test_damaged_compressed_files_are_read_or_reported(codec: str, random: Random) -> None:
    attack_compression(codec, random)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_thousands_of_cases_neither_crash_nor_take_memory(tmp_path: Path) -> None:
    program = Path(__file__).with_name("many_cases.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", str(program)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    cases, opened = map(int, done.stdout.split())
    assert cases > 4_000
    assert opened > cases / 10  # the damage gets past the first check
