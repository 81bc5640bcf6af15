"""Error messages and exit codes for common mistakes on the command line."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.edge.cli.conftest import run
from tests.kit.mistakes import beside

from mdstorm_backend import MDSWriter

#: Each row has a command line (P and M are the URLs of a Parquet and an MDS dataset), its exit
#: code, and part of the message.
MISTAKES = [
    ("no-such-command", 2, "No such command 'no-such-command'."),
    ("migrat", 2, "did you mean migrate?"),
    ("cache cler", 2, "No such command 'cler': did you mean clear?"),
    ("convert P", 2, "Missing argument 'DST'"),
    ("convert P M", 3, "overwrite=True (--overwrite)"),
    ("convert P P/mds", 2, "choose another destination"),
    ("convert /nope OUT", 3, "Check the URL"),
    ("convert CSV OUT", 2, "is not a Parquet file"),
    ("convert EMPTY OUT", 3, "has no Parquet files"),
    ("convert M OUT", 2, "not Parquet, so it cannot be converted"),
    ("convert P OUT --dtype float16", 2, "is not one of 'float32', 'float64'"),
    ("convert P OUT --columns no", 2, "among ['id', 'x', 's']"),
    ("convert P OUT --shard-size big", 2, "such as '64mb'"),
    ("convert P OUT --hash sha0", 2, "use one of blake2b"),
    ("convert P OUT -j 0", 2, "0 is not in the range x>=1"),
    ("inspect /nope", 3, "there is no dataset at file:///nope"),
    ("inspect M --format yaml", 2, "is not one of 'table', 'json'"),
    ("inspect M --storage-option s3cret", 2, "not of the form KEY=VALUE"),
    ("inspect M" + 2 * " --storage-option a=1" + " --storage-option s3cret", 2, "number 3 is not"),
    ("head /nope", 3, "there is no dataset at file:///nope"),
    ("head FOLDER", 3, "index.json"),
    ("head M -n a", 2, "'a' is not an integer"),
    ("head M -n -1", 2, "-1 is not in the range"),
    ("head M --columns no", 2, "choose among ['id', 'x', 's']"),
    ("verify /nope", 3, "Check the URL"),
    ("verify --against P", 2, "Missing argument 'URL'"),
    ("verify M --against P --quick", 2, "leave out either --quick or --against"),
    ("verify M --decimals float64", 2, "--decimals need --against"),
    ("verify M --dtype float32", 2, "need --against"),
    ("verify M --columns id", 2, "need --against"),
    ("verify M --version 1", 2, "is not a Delta or Iceberg table"),
    ("reindex M", 2, "replace it with force=True (--force)"),
    ("reindex ''", 2, "expected a URL or a path, found ''"),
    ("reindex /nope", 3, "there are no shards at file:///nope"),
    ("reindex EMPTY", 3, "there are no shards"),
    ("cache ls --directory CSV/a.csv", 3, "cannot be read"),
    ("run", 2, "Missing argument 'TARGET'"),
    ("run /nope.py", 2, "there is no such file"),
    ("run CSV", 2, "is a directory without __main__.py: pass the program"),
    ("trace CSV --dataset M --batch 0", 2, "torch.load(weights_only=True), which loads no pickled"),
    ("trace /nope --dataset M --batch 0", 3, "No such file or directory: '/nope'"),
    ("migrate /nope", 2, "/nope does not exist"),
    ("migrate --explain PM999", 2, "there is no rule PM999; see --list-rules"),
    ("migrate --select PM9 CSV", 2, "no rule is called PM9; see --list-rules"),
    ("migrate --exclude ! CSV", 2, "'!' is not a glob"),
    ("audit --fail-on errors CSV", 2, "'manual', 'review', 'any'"),
]


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[line for line, *_ in MISTAKES])
def test_mistake_on_command_line_prints_error_with_remedy(
    line: str, code: int, words: str, where: tuple[str, str]
) -> None:
    parquet, mds = where
    places = {name: beside(parquet, name.lower()) for name in ("CSV", "EMPTY", "FOLDER", "OUT")}
    places |= {"P": parquet, "M": mds}
    arguments = [
        "/".join(places.get(part, part).removeprefix("file://") for part in word.split("/"))
        for word in shlex.split(line)
    ]
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    assert "s3cret" not in result.stderr
    if code == 3:
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


@pytest.mark.long
def test_non_utf_8_path_is_printed_with_escapes(tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/d\xff")
    with MDSWriter(out=path, columns={"n": "int"}) as writer:
        writer.write({"n": 1})
    commands = ["inspect", "verify", "head", "inspect --format json"]
    call = (
        "import sys, mdstorm.cli as c; u = sys.argv.pop()\n"
        "for a in sys.argv[1:]: print(end=chr(0)); c.main([*a.split(), u], standalone_mode=False)"
    )
    program = [sys.executable, "-c", call, *commands, path]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=strict)
    said = done.stdout.split("\0")[1:]
    assert [r"/d\udcff" in each for each in said] == [True] * len(commands)
