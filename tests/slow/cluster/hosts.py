"""Hosts that share nothing but a network, simulated by Linux namespaces on this machine.

Each host has its own address, name, processes, and directories ``/tmp``, ``/dbfs``, ``/Volumes``
and ``/dev/shm``. The machine's other files, such as installed packages, are visible on every host.
All hosts share ``/srv``, where volumes keep their files.

Namespaces leave nothing behind: the kernel removes a host's processes, mounts and network as soon
as this process ends, for whatever reason.
"""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_REPOSITORY = Path(__file__).parents[3]
_OWN = ("tmp", "dbfs", "Volumes")
_READY = "ready"
_NETWORK = "10.77.0"
_TIMEOUT_SECONDS = 240
_NET = 0x40000000


class Program:
    """A program on a host, whose output is read while it runs."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._grown = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._grown:
                    self._lines.append(line)
                    self._grown.notify_all()
        with self._grown:
            self._is_over = True
            self._grown.notify_all()

    @property
    def output(self) -> str:
        """The output so far."""
        with self._grown:
            return "".join(self._lines)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the program's output contains the text in at least `times` lines."""
        with self._grown:
            self._grown.wait_for(
                lambda: self._is_over or sum(text in line for line in self._lines) >= times,
                _TIMEOUT_SECONDS,
            )
            found = sum(text in line for line in self._lines)
        assert found >= times, f"{text!r} is not in:\n{self.output}"

    def finish(self, *, fails: bool = False, seconds: int = _TIMEOUT_SECONDS) -> str:
        """Wait until the program ends, check its exit status, and return its output."""
        try:
            code = self.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running:\n{self.output}") from None
        assert bool(code) is fails, f"ended with {code}:\n{self.output}"
        return self.output

    def wait(self, seconds: int = _TIMEOUT_SECONDS) -> int:
        """Wait until the program ends, and return the exit code."""
        code = self._process.wait(seconds)
        self._thread.join(_TIMEOUT_SECONDS)
        return code


class _Namespaces:
    """Linux namespaces that live as long as a separate process."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            ["unshare", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline().strip()
        if first != _READY:
            self.end()
            raise OSError(first)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def handles(self) -> str:
        """The directory with a file for each namespace."""
        return f"/proc/{self.pid}/ns"

    def end(self) -> None:
        """End all processes in the namespaces at once; a second call does nothing."""
        if not self.is_off:
            self._process.kill()
            self._process.communicate()

    @property
    def is_off(self) -> bool:
        """Whether the namespaces have ended."""
        return self._process.poll() is not None


class Host(_Namespaces):
    """A machine on the network.

    Attributes
    ----------
    name, address, port : str
        Its name and address, and its port on the switch.
    disk : Path
        Where this process sees its ``tmp``, ``dbfs`` and ``Volumes``.
    environment : dict of str to str
        Environment variables for its programs.
    """

    def __init__(self, name: str, address: str, port: str, directory: Path, hosts: str) -> None:
        self.name, self.address, self.port = name, address, port
        self.disk = directory / "own"
        for own in _OWN:
            (self.disk / own).mkdir(parents=True)
        (self.disk / "srv").symlink_to(directory.parent / "cloud")
        (directory / "root").mkdir()
        (directory / "hosts").write_text(hosts)
        self._programs: list[Program] = []
        kinds = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
        script = Path(__file__).with_name("host.sh")
        super().__init__(
            *kinds, "--mount-proc", str(script), name, str(directory), str(_REPOSITORY)
        )
        kept = ("JAVA_HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH")
        self.environment = {
            **{key: os.environ[key] for key in kept if key in os.environ},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": "/tmp",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *command: object, **environment: str) -> Program:
        """Start a program in the host's ``/tmp``, with additional environment variables."""
        entered = ("net", "mnt", "uts", "ipc", "pid_for_children")
        options = ("--net", "--mount", "--uts", "--ipc", "--pid")
        enter = [f"{o}={self.handles}/{e}" for o, e in zip(options, entered, strict=True)]
        words = ["nsenter", *enter, "env", "-C", "/tmp", *map(str, command)]
        self._programs.append(Program(words, {**self.environment, **environment}))
        return self._programs[-1]

    def run(self, *command: object, fails: bool = False, **environment: str) -> str:
        """Run a program to completion, and return its output."""
        return self.start(*command, **environment).finish(fails=fails)

    def kill(self, words: str) -> int:
        """Kill the host's processes whose command contains `words`; return their number."""
        found = self.start("pgrep", "-f", words)
        numbers = found.finish().split()
        self.run("kill", "-KILL", *numbers)
        return len(numbers)

    def wait_until_gone(self, words: str) -> None:
        """Wait until the host's processes whose command contains `words` have ended."""
        numbers = self.start("pgrep", "-f", words)
        numbers.wait()
        for number in numbers.output.split():
            self.run("tail", f"--pid={number}", "-f", "/dev/null")

    def end(self) -> None:
        """Turn the host off."""
        super().end()
        for program in self._programs:
            program.wait()

    @contextmanager
    def network(self) -> Iterator[None]:
        """Move this thread to the host's network; sockets created in the block stay there."""
        with open("/proc/thread-self/ns/net") as before, open(f"{self.handles}/net") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())


class Network:
    """Hosts connected by a switch.

    Parameters
    ----------
    directory : Path
        Where the hosts' disks are kept.
    names : str
        The hosts' names, separated by spaces.

    Raises
    ------
    OSError
        If this process may not create namespaces.
    """

    def __init__(self, directory: Path, names: str) -> None:
        self._directory = directory
        (directory / "cloud").mkdir()
        self._addresses = {name: f"{_NETWORK}.{n}" for n, name in enumerate(names.split(), 1)}
        self._ports = count()
        self._hosts: dict[str, Host] = {}
        made = "ip link add bridge type bridge && ip link set bridge up && echo ready && cat"
        self._switch = _Namespaces("--net", "sh", "-c", made)

    def __getitem__(self, name: str) -> Host:
        """Return a host, turning it on if it is off."""
        if name not in self._hosts or self._hosts[name].is_off:
            self._hosts[name] = self._turned_on(name)
        return self._hosts[name]

    def _turned_on(self, name: str) -> Host:
        address, port = self._addresses[name], f"port{next(self._ports)}"
        known = [f"{number} {other}" for other, number in self._addresses.items()]
        at = self._directory / f"{name}-{port}"
        host = Host(name, address, port, at, "\n".join(["127.0.0.1 localhost", *known, ""]))
        number = host.pid
        self._on_switch(f"link add {port} type veth peer name eth0 netns {number}")
        self._on_switch(f"link set {port} master bridge up")
        for words in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
            host.run("ip", *words.split())
        return host

    def _on_switch(self, words: str, command: str = "ip") -> None:
        enter = ["nsenter", f"--net={self._switch.handles}/net", command, *words.split()]
        subprocess.run(enter, check=True, capture_output=True)

    def unplug(self, host: Host) -> None:
        """Unplug a host's network cable."""
        self._on_switch(f"link set {host.port} down")

    def plug(self, host: Host) -> None:
        """Plug a host's network cable back in."""
        self._on_switch(f"link set {host.port} up")

    def slow_down(self, host: Host, rate: str) -> None:
        """Limit a host's bandwidth, for example to ``10mbit``."""
        limit = f"root tbf rate {rate} burst 16kb latency 1s"
        self._on_switch(f"qdisc add dev {host.port} {limit}", "tc")
        host.run("tc", *f"qdisc add dev eth0 {limit}".split())

    def speed_up(self, host: Host) -> None:
        """Remove the bandwidth limit."""
        self._on_switch(f"qdisc del dev {host.port} root", "tc")
        host.run("tc", *["qdisc", "del", "dev", "eth0", "root"])

    def close(self) -> None:
        """Turn off all hosts and the switch."""
        for part in (*self._hosts.values(), self._switch):
            part.end()


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
