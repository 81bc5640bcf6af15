"""``mdstorm run`` behaves like ``python``, except that `import petastorm` imports mdstorm."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.contract.conformance.place import DATA

from mdstorm.etl.dataset_metadata import ROW_GROUPS_PER_FILE_KEY

Finished = subprocess.CompletedProcess[str]

PROGRAM = """
import multiprocessing, sys
import neighbour
from petastorm.errors import NoDataAvailableError

def work(_):
    return __name__, NoDataAvailableError.__module__

if __name__ == "__main__":
    print(*sys.argv[1:], sys.path[0])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.map(work, [0])[0])
    neighbour.finish()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's working directory, which contains a program."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "neighbour.py").write_text("import sys\ndef finish(): sys.exit(7)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int) -> Finished:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mdstorm", "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.long
@pytest.mark.parametrize("target", [["program.py"], ["-m", "program"]])
def test_run_command_executes_program_like_python(target: list[str], folder: Path) -> None:
    done = run(*target, "--help", "-m", "a b", code=7)
    assert done.stdout.splitlines() == [
        f"--help -m a b {folder}",
        "__mp_main__ mdstorm.errors",
    ]
    assert done.stderr == ""


def test_run_command_executes_archive_like_python(folder: Path) -> None:
    with zipfile.ZipFile(folder / "program.pyz", "w") as archive:
        archive.writestr("__main__.py", "import petastorm, beside; print(petastorm.__version__)")
        archive.writestr("beside.py", "")
    assert run("program.pyz", code=0).stdout == "0.13.1\n"


def test_streaming_option_also_replaces_mosaicml_streaming(folder: Path) -> None:
    (folder / "both.py").write_text(
        "import petastorm, streaming; print(petastorm.__version__, streaming.__version__)"
    )
    assert run("--streaming", "both.py", code=0).stdout == "0.13.1 0.13.0\n"
    assert "put --streaming before TARGET" in run("both.py", code=1).stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "code", "last"),
    [
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("import click; raise click.UsageError('x')", 1, "click.exceptions.UsageError: x"),
        ("import no_such_module", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("open('absent')", 1, "FileNotFoundError: [Errno 2] No such file or directory: 'absent'"),
    ],
)
@pytest.mark.parametrize("target", [["failing.py"], ["-m", "failing"]])
def test_failing_program_traceback_shows_only_the_program(
    program: str, code: int, last: str, target: list[str], folder: Path
) -> None:
    (folder / "failing.py").write_text(program)
    lines = run(*target, code=code).stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('failing.py", line 1, in <module>')
    assert lines[-1] == last
    assert sum(line.startswith("  File ") for line in lines) == 1


def test_running_a_missing_program_prints_error_with_its_name(folder: Path) -> None:
    for module in ("absent", "neighbour.absent"):
        assert run("-m", module, code=1).stderr.endswith(f": No module named {module}\n")
    assert "can't open 'absent.py'" in run("absent.py", code=2).stderr


@pytest.mark.long
@pytest.mark.parametrize("way", ["module", "script"])
def test_petastorm_commands_run_on_mdstorm(way: str, tmp_path: Path) -> None:
    script = tmp_path / "petastorm-generate-metadata.py"
    script.write_text("from petastorm.etl.petastorm_generate_metadata import main\nmain()\n")
    module = ["-m", "petastorm.etl.petastorm_generate_metadata"]
    target = [str(script)] if way == "script" else module
    shutil.copytree(DATA / "places", tmp_path / "places")
    common = tmp_path / "places" / "_common_metadata"
    before = pq.read_schema(common).metadata
    url = (tmp_path / "places").as_uri()
    run(*target, "--dataset_url", url, code=0)
    after = pq.read_schema(common).metadata
    assert after.keys() >= before.keys()
    assert json.loads(after[ROW_GROUPS_PER_FILE_KEY]) == json.loads(before[ROW_GROUPS_PER_FILE_KEY])
