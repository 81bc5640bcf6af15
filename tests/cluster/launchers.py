"""How users start the ranks of a job: one launcher on each host."""

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.hosts import Host, Program

_PORT = 29400


def torchrun(
    hosts: Sequence[Host],
    program: Path,
    *arguments: object,
    processes: int = 2,
    nodes: object = None,
    **environment: str,
) -> list[Program]:
    """Start torchrun on each of some hosts, of which the first one is where they meet."""
    options = [
        f"--nnodes={nodes or len(hosts)}",
        f"--nproc-per-node={processes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0].name}:{_PORT}",
        "--rdzv-conf=join_timeout=60,last_call_timeout=2,timeout=60",
        "--max-restarts=3",
    ]
    command = ["python", "-m", "torch.distributed.run", *options, program, *arguments]
    own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", **environment}
    return [host.start(*command, **own) for host in hosts]


def finish(programs: Sequence[Program]) -> str:
    """Wait for the end of all, and return what they have printed."""
    return "".join(program.finish() for program in programs)
