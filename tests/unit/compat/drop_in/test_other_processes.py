"""Imports of `petastorm` in child processes that have not imported mdstorm yet."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.installed import installed_as_petastorm
from tests.kit.programs import run_program

#: A module next to the program, which its child processes import.
NEIGHBOUR = """
from petastorm.transform import TransformSpec

def home(_):
    import petastorm.transform
    assert petastorm.transform.TransformSpec is TransformSpec
    return TransformSpec.__module__
"""


def run(source: str, folder: Path) -> list[str]:
    (folder / "neighbour.py").write_text(NEIGHBOUR)
    return run_program(textwrap.dedent(source), cwd=folder).stdout.splitlines()


@pytest.mark.long
def test_child_processes_import_mdstorm_as_petastorm(tmp_path: Path) -> None:
    program = """
        import multiprocessing, subprocess, sys
        import mdstorm
        mdstorm.install_as_petastorm()
        import neighbour

        if __name__ == "__main__":
            assert "pyspark" not in sys.modules
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(*pool.map(neighbour.home, [0]))
            child = "import neighbour; print(neighbour.home(0))"
            subprocess.run([sys.executable, "-c", child], check=True)
        """
    assert run(program, tmp_path) == ["mdstorm.transform"] * 3


def test_child_process_without_mdstorm_raises_error_that_names_mdstorm(tmp_path: Path) -> None:
    import mdstorm

    shim = Path(mdstorm.__file__).parent / "_drop_in" / "shim"
    # -S leaves out site-packages, where mdstorm is installed.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import petastorm.spark"],
        env={**os.environ, "PYTHONPATH": str(shim)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ModuleNotFoundError: this program runs with mdstorm in petastorm's")
    assert sys.executable in message


def test_workers_in_existing_session_import_mdstorm_as_petastorm(spark: Any) -> None:
    def homes(batches: Iterator[Any]) -> Iterator[Any]:
        # A cluster's machines do not share the driver's search path.
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("shim")]
        from petastorm.transform import TransformSpec

        for batch in batches:
            yield batch.from_pydict({"home": [TransformSpec.__module__]})

    with installed_as_petastorm():
        (row,) = spark.range(1).repartition(1).mapInArrow(homes, "home string").collect()
    assert row.home == "mdstorm.transform"


@pytest.mark.long
def test_workers_in_later_session_import_mdstorm_as_petastorm(tmp_path: Path) -> None:
    program = """
        import os
        import mdstorm
        mdstorm.install_as_petastorm()
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
        del os.environ["PYTHONPATH"]
        from pyspark import SparkContext

        def home(_):
            from petastorm.transform import TransformSpec
            return TransformSpec.__module__

        with SparkContext("local[1]") as context:
            print(*context.parallelize([0], 1).map(home).collect())
        """
    assert run(program, tmp_path) == ["mdstorm.transform"]


def test_warning_if_session_rejects_shim(tmp_path: Path) -> None:
    from mdstorm_backend.drop_in import stand_in

    class Refuses:
        def addPyFile(self, path: str) -> None:  # noqa: N802
            raise PermissionError("not on this cluster")

    with pytest.warns(UserWarning, match=r"will not find petastorm.*not on this cluster"):
        stand_in.send_shim(Refuses(), tmp_path / "petastorm.py")
