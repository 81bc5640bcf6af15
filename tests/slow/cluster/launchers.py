"""Start a job's ranks as users do, with one launcher on each host."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.slow.cluster.hosts import Host, Program

_PORT = 29400
#: Timeouts in seconds: for joining, for waiting for more hosts, and for all other steps.
_LIMITS = "join_timeout=60,last_call_timeout=2,timeout=60"


def torchrun(
    hosts: Sequence[Host],
    program: Path,
    *arguments: object,
    on: Sequence[Host] = (),
    processes: int = 2,
    nodes: object = None,
    restarts: int = 0,
    before: Mapping[str, Sequence[object]] | None = None,
    **environment: str,
) -> list[Program]:
    """Start torchrun on hosts that rendezvous at the first host; `on` limits where it is started.

    `before` maps host names to words that precede the command on that host.
    """
    options = [
        f"--nnodes={nodes or len(hosts)}",
        f"--nproc-per-node={processes}",
        f"--max-restarts={restarts}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0].name}:{_PORT}",
        f"--rdzv-conf={_LIMITS}",
    ]
    command = ["python", "-m", "torch.distributed.run", *options, program, *arguments]
    own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", **environment}
    first = before or {}
    return [host.start(*first.get(host.name, []), *command, **own) for host in on or hosts]


def mpirun(hosts: Sequence[Host], *command: object, processes: int, **environment: str) -> str:
    """Run a command with Open MPI, in the given number of processes on each host.

    Open MPI reaches the hosts through pipes in their shared directory instead of ``ssh``.
    """
    agent = hosts[0].disk / "srv" / "rsh"
    agent.write_text('#!/bin/sh\nhost=$1; shift; echo "$@" > /srv/$host.commands\n')
    agent.chmod(0o755)
    variables = {**environment, "PYTHONPATH": hosts[0].environment.get("PYTHONPATH", "")}
    for host in hosts[1:]:
        pipe = f"/srv/{host.name}.commands"
        host.run("mkfifo", pipe)
        host.start("sh", pipe, **variables)
    names = ",".join(f"{host.name}:{processes}" for host in hosts)
    parameters = {"plm_rsh_agent": "/srv/rsh", "oob_tcp_if_include": "eth0"}
    return hosts[0].run(
        *("mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", names),
        *(word for name, value in parameters.items() for word in ("--mca", name, value)),
        *(word for name in variables for word in ("-x", name)),
        *command,
        **variables,
    )


def finish(programs: Sequence[Program]) -> str:
    """Wait until all programs have ended, and return their output."""
    codes = [program.wait() for program in programs]
    output = "".join(program.output for program in programs)
    assert not any(codes), f"ended with {codes}:\n{output}"
    return output
