"""A Spark standalone cluster that runs the installed PySpark's daemons, each on its own host."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.slow.cluster.hosts import Host, Program

_HOME = Path(pyspark.__file__).parent
_PORT = "7077"
_DEPLOY = "org.apache.spark.deploy"
_CONF = {
    "spark.default.parallelism": "4",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Jobs wait until all executors have registered, so that every executor takes part.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    # After this time without a heartbeat from an executor, Spark continues without that executor.
    "spark.network.timeout": "60s",
    "spark.executor.heartbeatInterval": "5s",
}
#: Where executors write shuffle files.
SPARKS_DISK = "/tmp/shuffled"
#: JVMs that run for only seconds do not benefit from the optimizing compiler.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Standalone:
    """A master on one host, and workers on several others.

    Parameters
    ----------
    master : Host
        The host for the master and the drivers.
    workers : sequence of Host
        The hosts for executors: one executor per application on each host, with one core.
    environment : mapping of str to str
        Additional variables for drivers and executors.
    """

    def __init__(
        self, master: Host, workers: Sequence[Host], environment: Mapping[str, str]
    ) -> None:
        self._driver = master
        self._environment = environment
        self.url = f"spark://{master.address}:{_PORT}"
        self._daemon(master, "master.Master", "--host", master.address, "--port", _PORT).wait_for(
            "New state: ALIVE"
        )
        joining = [self.join(worker) for worker in workers]
        for daemon in joining:
            daemon.wait_for("Successfully registered with master")

    def join(self, worker: Host, **environment: str) -> Program:
        """Start a host's worker."""
        options = ("--host", worker.address, "--cores", "1", "--memory", "1g", self.url)
        return self._daemon(worker, "worker.Worker", *options, **environment)

    def _daemon(self, host: Host, name: str, *options: str, **environment: str) -> Program:
        own = {
            "SPARK_LOCAL_IP": host.address,
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            "SPARK_WORKER_DIR": "/tmp/work",
            "SPARK_LOCAL_DIRS": SPARKS_DISK,
        }
        return host.start(
            *(_HOME / "bin" / "spark-class", f"{_DEPLOY}.{name}", *options),
            **{**self._environment, **own, **environment},
        )

    def submit(
        self, program: Path, *arguments: object, conf: Mapping[str, str] | None = None
    ) -> Program:
        """Start a driver, as a user does, with ``spark-submit``."""
        return self._start("bin/spark-submit", conf or {}, program, *arguments)

    @contextmanager
    def connect_server(self) -> Iterator[str]:
        """Run a Spark Connect server, which is a driver, and yield its URL."""
        server = self._start("sbin/start-connect-server.sh", {}, before=["--wait"])
        try:
            server.wait_for("Spark Connect server started at")
            yield f"sc://{self._driver.name}:15002"
        finally:
            self._driver.kill("SparkConnectServer")
            server.wait()

    def _start(
        self, script: str, conf: Mapping[str, str], *words: object, before: Sequence[str] = ()
    ) -> Program:
        conf = {**_CONF, "spark.executor.extraJavaOptions": _JAVA, **conf}
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        return self._driver.start(
            *(_HOME / script, *before, "--master", self.url, *options, *words),
            SPARK_LOCAL_IP=self._driver.address,
            SPARK_SUBMIT_OPTS=_JAVA,
            **self._environment,
        )
