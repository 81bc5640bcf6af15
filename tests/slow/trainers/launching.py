"""Run a program from `programs` in one or more processes, and collect the rows that it received."""

import json
import os
import runpy
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.conftest import SECONDS_PER_TEST
from tests.kit.programs import free_port
from tests.kit.readers import continue_as_another_process

PROGRAMS = Path(__file__).parent / "programs"
#: Directory with a stand-in for torchvision, which Composer imports but whose wheels do not load.
STAND_IN = str(Path(__file__).parents[2] / "kit" / "stand_in")

#: Shorter than a test's time limit, so that the error shows the program's output.
_TIMEOUT_SECONDS = 0.8 * SECONDS_PER_TEST

#: Number of batches in the first epoch after which a checkpoint is written.
SAVED_AT = 4


@dataclass(frozen=True)
class NumberedBatches:
    """The batches that each rank of a run received.

    Attributes
    ----------
    batches : list of list of list of int
        The row numbers in each batch, for each rank.
    """

    batches: list[list[list[int]]]

    @property
    def rows(self) -> Counter[int]:
        """How often each row was yielded, across all ranks."""
        return Counter(row for rank in self.batches for batch in rank for row in batch)

    @property
    def steps(self) -> list[int]:
        """Number of batches on each rank."""
        return [len(rank) for rank in self.batches]


def each_once(rows: int) -> Counter[int]:
    """Return the value of `NumberedBatches.rows` if no row was lost or repeated."""
    return Counter(range(rows))


class Run:
    """A finished program.

    Attributes
    ----------
    output : str
        What all ranks printed.
    """

    def __init__(self, records: Path, output: str) -> None:
        self._records = records
        self.output = output

    def recorded(self, part: str = "rows") -> NumberedBatches:
        """Return the rows recorded as `part`, by rank."""
        files = self._records.glob(f"{part}-*.jsonl")
        by_rank = sorted(files, key=lambda file: int(file.stem.rpartition("-")[2]))
        lines = [file.read_text().splitlines() for file in by_rank]
        return NumberedBatches([[json.loads(line) for line in rank] for rank in lines])

    def check_resumes(self, rows: int) -> None:
        """Check that the first run read all rows of its epochs, and the second the remaining rows.

        If the number of ranks is the same, the batches must also be the same.
        """
        for epoch in ("train0", "train1"):
            assert self.recorded(epoch).rows == each_once(rows)
        if len(self.recorded("train0").batches) == len(self.recorded("resumed0").batches):
            self.check_resumes_exactly()
        else:
            self.check_resumes_in_another_world(rows)

    def check_resumes_exactly(self) -> None:
        """Check that the second run trained on the batches after the first run's checkpoint."""
        before = self.recorded("train0").batches
        assert self.recorded("resumed0").batches == [rank[SAVED_AT:] for rank in before]
        assert self.recorded("resumed1").batches == self.recorded("train1").batches

    def check_resumes_in_another_world(self, rows: int) -> None:
        """Check that the second run trained on the remaining rows, and then on whole epochs."""
        before = self.recorded("train0").batches
        trained = NumberedBatches([rank[:SAVED_AT] for rank in before]).rows
        assert trained + self.recorded("resumed0").rows == each_once(rows)
        assert self.recorded("resumed1").rows == each_once(rows)


#: A function that starts a program: `launch` or `fork`.
Start = Callable[..., Run]


def launch(
    program: str,
    *args: object,
    at: Path,
    processes: int = 1,
    launcher: Sequence[str] | None = None,
    fails: bool = False,
    warning: str = "",
    **environment: str,
) -> Run:
    """Run a program with its records in `at`, which may contain records from an earlier run.

    Parameters
    ----------
    program : str
        The program's file name in `programs`.
    *args
        The program's arguments.
    at : Path
        Directory for the records; created if necessary.
    processes : int
        Number of ranks. Without `launcher`, torchrun starts them if there are several.
    launcher : sequence of str, optional
        The words before the program on the command line; ``[sys.executable]`` for a program that
        starts its ranks itself.
    fails : bool
        Whether the program must fail.
    warning : str
        Part of the warning that ranks must log; empty if they must not log any.
    **environment
        Additional variables.
    """
    at.mkdir(exist_ok=True, parents=True)
    if launcher is None:
        launcher = torchrun(processes) if processes > 1 else [sys.executable]
    done = subprocess.run(
        [*launcher, str(PROGRAMS / program), *map(str, args)],
        cwd=at,
        env={**os.environ, **_quiet(processes), "MDSTORM_TEST_RECORDS": str(at), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    assert (done.returncode != 0) is fails, done.stdout
    _check_warnings(at, warning)
    return Run(at, done.stdout)


def _check_warnings(at: Path, expected: str) -> None:
    record = at / "warnings"
    found = record.read_text() if record.exists() else ""
    assert expected in found if expected else not found, found


def fork(
    program: str,
    *args: object,
    at: Path,
    processes: int = 1,
    fails: bool = False,
    warning: str = "",
) -> Run:
    """Run a program like `launch`, but in forks of this process, which has imported the frameworks.

    Starting Python for each rank, as users do, would take longer than the programs themselves.
    """
    if _USES_GPU:  # CUDA does not survive a fork
        return launch(program, *args, at=at, processes=processes, fails=fails, warning=warning)
    at.mkdir(exist_ok=True, parents=True)
    several = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "NODE_RANK": "0",
        "MASTER_PORT": str(free_port()),
    }
    ranks = []
    for rank in map(str, range(processes)):
        own = {"RANK": rank, "LOCAL_RANK": rank, **several} if processes > 1 else {}
        words = [str(PROGRAMS / program), *map(str, args)]
        arguments = (words, at, {**_quiet(processes), "MDSTORM_TEST_RECORDS": str(at), **own})
        ranks.append(get_context("fork").Process(target=_run_in_fork, args=arguments))
        ranks[-1].start()
    for process in ranks:
        process.join(_TIMEOUT_SECONDS)
    codes = [process.exitcode for process in ranks]
    for process in ranks:
        process.kill()
    output = "".join(path.read_text() for path in at.glob("*.output"))
    assert None not in codes, f"has not ended:\n{output}"
    assert any(codes) is fails, output
    _check_warnings(at, warning)
    return Run(at, output)


def _run_in_fork(words: list[str], at: Path, environment: dict[str, str]) -> None:
    # Earlier tests in this process have used the same datasets.
    continue_as_another_process()
    sys.stdout = sys.stderr = (at / f"{os.getpid()}.output").open("w", buffering=1)
    warnings.resetwarnings()
    os.environ.update(environment)
    os.chdir(at)
    sys.argv = words
    sys.path.insert(0, str(PROGRAMS))
    runpy.run_path(words[0], run_name="__main__")


#: Whether programs with a single rank run on the GPU. Several ranks would need one GPU each.
_USES_GPU = os.environ.get("MDSTORM_TEST_GPU") == "1"

#: Variables for one thread per rank, fewer log messages, and no network except localhost.
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MASTER_ADDR": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def _quiet(processes: int) -> dict[str, str]:
    """Return the variables for a program, which runs on the CPU unless it may use the GPU."""
    return _QUIET if _USES_GPU and processes == 1 else {**_QUIET, "CUDA_VISIBLE_DEVICES": ""}


def torchrun(processes: int) -> list[str]:
    """Return the command that starts this many ranks on this machine."""
    # With port 0, the first rank chooses a free port.
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
    count = f"--nproc-per-node={processes}"
    return [sys.executable, "-m", "torch.distributed.run", *rendezvous, "--nnodes=1", count]
