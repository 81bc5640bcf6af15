"""A Spark Connect server in a separate process, with its own working directory and mounts."""

import re
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kit.programs import own_mounts, run_program, without_session

_STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_CONF = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
}


class SparkConnectServer:
    """The installed PySpark's server, with executors as child processes.

    Parameters
    ----------
    directory : Path
        The server's working directory.
    mounts : sequence of str
        Shell commands that mount directories only for the server.
    environment : mapping of str to str
        Additional environment variables for the server and its Python workers.
    """

    def __init__(
        self,
        directory: Path,
        *,
        mounts: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        home = _home_of_pyspark()
        conf = " ".join(f"--conf {key}={value}" for key, value in _CONF.items())
        submit = f"{home}/bin/spark-submit --master 'local[2]' --class {_CLASS} {conf} _"
        command = ["sh", "-c", " && ".join([*mounts, f"cd {directory}", f"exec {submit}"])]
        self._process = subprocess.Popen(
            [*(own_mounts() if mounts else ()), *command],
            env={**without_session(), "SPARK_HOME": str(home), **(environment or {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self._errors = self._process.stderr
        self.url = f"sc://127.0.0.1:{self._wait_for_port()}"
        self._drain = threading.Thread(target=list, args=[self._errors], daemon=True)
        self._drain.start()

    def _wait_for_port(self) -> str:
        seen = []
        for line in self._errors:
            seen.append(line)
            if found := _STARTED.search(line):
                return found[1]
        raise RuntimeError("the Spark Connect server did not start:\n" + "".join(seen[-20:]))

    def run(self, program: str, directory: Path) -> str:
        """Run a program whose `spark` is a session on this server, and return the output."""
        head = (
            "from pyspark.sql import SparkSession\n"
            f"spark = SparkSession.builder.remote({self.url!r}).getOrCreate()\n"
        )
        return run_program(head + program, cwd=directory).stdout

    def close(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait()
        self._drain.join()
        self._errors.close()


def _home_of_pyspark() -> Path:
    pyspark = pytest.importorskip("pyspark")
    home = Path(pyspark.__file__).parent
    if not list(home.glob("jars/spark-connect_*.jar")):
        pytest.skip("this version of PySpark does not include the Spark Connect server")
    return home
