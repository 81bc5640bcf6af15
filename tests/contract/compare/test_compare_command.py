"""``mdstorm compare`` with programs that run here, and with recordings that the tests make up."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.compare.made_up import (
    RECORDER,
    compare_loaders,
    loader_at,
    loader_of,
    recording,
    run,
    write,
)

PROGRAM = """
import sys
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader

class Loader(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield {**batch, "double": batch["id"] * 2}

def train(url):
    with Loader(make_batch_reader(url, num_epochs=None), batch_size=4) as loader:
        for step, batch in enumerate(loader):
            if step == 3:
                break
    with make_batch_reader(url, shuffle_row_groups=False) as reader:
        return sum(len(batch.id) for batch in reader)

if __name__ == "__main__":
    print(train(sys.argv[1]))
    if len(sys.argv) > 2:
        raise ValueError(sys.argv[2])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, two tables, and a recording of the program with the first table."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "train.py").write_text(PROGRAM)
    for name, factor in (("one", 1.0), ("other", 1.5)):
        (folder / name).mkdir()
        table = pa.table({"id": np.arange(20), "x": np.arange(20) * factor})
        pq.write_table(table, folder / name / "part-0.parquet", row_group_size=6)
    command = [sys.executable, "-m", "mdstorm", "run", RECORDER, "--examples", "2"]
    done = subprocess.run(
        [*command, "train.py", (folder / "one").as_uri()],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def compare(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mdstorm", "compare", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
def test_program_compared_with_its_recording_is_equal(folder: Path) -> None:
    url = (folder / "one").as_uri()
    code, out, err = compare("train.recording.json", "--", "train.py", url, cwd=folder)
    assert code == 0, out + err
    rest = "equal           20 rows"
    assert out.splitlines()[2:] == [
        f"train.py train DataLoader #1         {rest}, 3 columns",
        f"train.py train make_batch_reader #1  {rest}, 2 columns, in the same order",
        "",
        "2 equal, 0 different, 0 not comparable",
    ]
    assert "checkpoints and MLflow runs" in err
    assert "20\n" in err, "the program's own output"
    assert (folder / "train.recording.mdstorm.json").exists()


#: An older Python with Petastorm, made by `benchmarks/make_environments.sh recorder`.
_ENVIRONMENTS = RECORDER.parents[3] / "benchmarks" / ".environments"
WITH_PETASTORM = [
    str(path.parents[3] / "bin" / "python")
    for path in _ENVIRONMENTS.glob("recorder-*/lib/python3*/site-packages/petastorm")
]
READS = """
import sys
from petastorm import make_batch_reader
for epochs in (1, None):
    with make_batch_reader(sys.argv[1], num_epochs=epochs, shuffle_row_groups=False) as reader:
        for batch in reader:
            if epochs is None:
                break
"""


@pytest.mark.parametrize("python", WITH_PETASTORM)
def test_program_recorded_on_an_older_python_is_equal(
    python: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "read.py").write_text(READS)
    program = ["read.py", (folder / "one").as_uri()]
    command = [python, "-W", "ignore", RECORDER, *program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, out, err = compare("read.recording.json", "--", *program, cwd=tmp_path)
    assert code == 0, out + err
    assert out.count("equal           20 rows, 2 columns, in the same order") == 2


@pytest.mark.long
def test_changed_data_is_reported_with_its_column(folder: Path) -> None:
    url = (folder / "other").as_uri()
    options = ["--format", "json", "--examples", "2", "--output", "other.json"]
    command = ["train.recording.json", *options, "--", "train.py", url]
    code, out, _ = compare(*command, cwd=folder)
    assert code == 1
    found = json.loads(out)
    assert found["counts"] == {"equal": 0, "different": 2, "not comparable": 0}
    for loader in found["loaders"]:
        assert [(each["kind"], each["column"]) for each in loader["differences"]] == [
            ("values", "x")
        ]
        side, *_ = loader["examples"]
        assert side in ("before", "after")
    code, out, _ = compare("train.recording.json", "other.json", cwd=folder)
    assert code == 1
    assert out.count("column x: values: 0 … 19, sum 190, then 0 … 28.5, sum 285") == 2


@pytest.mark.long
def test_commands_on_the_page_about_ci_compare_and_write_json(folder: Path) -> None:
    page = RECORDER.parents[3] / "docs" / "migrate" / "ci.md"
    both = re.findall(r"run: mdstorm (compare .+)$", page.read_text("utf-8"), re.M)
    assert len(both) == 2
    for command in both:
        command = command.replace("tests/", "").partition(" >")[0]
        command = command.replace("--epochs 1", (folder / "one").as_uri())
        code, out, err = compare(*command.split()[1:], cwd=folder)
        assert code == 0, out + err
    assert json.loads(out)["counts"] == {"equal": 2, "different": 0, "not comparable": 0}


@pytest.mark.long
def test_program_that_fails_keeps_its_partial_recording(folder: Path) -> None:
    program = ["train.py", (folder / "one").as_uri(), "no space"]
    command = ["train.recording.json", "--output", "partial.json", "--", *program]
    code, out, err = compare(*command, cwd=folder)
    assert (code, out) == (2, "")
    assert "error: partial.json: the program ended with ValueError, so the" in err
    assert "ValueError: no space\n" in err, "the program's own message"
    (run,) = json.loads((folder / "partial.json").read_text())["runs"]
    assert run["ended"] == "ValueError"
    assert [one["data"]["rows"] for one in run["loaders"]] == [20, 20]


@pytest.mark.long
def test_killed_program_keeps_its_earlier_recording(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    write(tmp_path / "train.recording.json", recording(loader_at(0)))
    earlier = write(tmp_path / "train.recording.mdstorm.json", recording(loader_at(0)))
    before = earlier.read_text()
    code, out, err = compare("train.recording.json", "--", "train.py", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "train.py ended with exit code -9, and wrote no recording" in err
    assert earlier.read_text() == before


NEEDS_ARGUMENT = """
from argparse import ArgumentParser
parser = ArgumentParser()
parser.add_argument("--data", required=True)
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("source", "own", "ended", "remedy"),
    [
        (NEEDS_ARGUMENT, "are required: --data", "exit code 2", "Does it need arguments?"),
        ("import ads", "No module named 'ads'", "ModuleNotFoundError", "as a module: -m ads.train"),
    ],
)
def test_program_that_ends_early_prints_remedy_and_exits_with_2(
    source: str, own: str, ended: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "ads").mkdir()
    (tmp_path / "ads" / "train.py").write_text(source)
    write(tmp_path / "train.recording.json", recording(loader_at(0)))
    code, out, err = compare("train.recording.json", "--", "ads/train.py", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert own in err, "the program's own message"
    start = (
        f"error: train.recording.mdstorm.json: the program ended with {ended}, so the recording "
    )
    assert err.splitlines()[-1].startswith(f"{start}is incomplete. ")
    assert remedy in err


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('{"recording": 1, "runs": [', "not a complete recording"),
        ("{}", "not a complete recording"),
        ("[1]", "not a complete recording"),
        (recording(runs=[]), "contains no runs"),
        (recording(recording=2), "newer recorder"),
        (recording(), "created no Petastorm or mdstorm loader"),
        (recording(loader_at(0), ranks=2), "has recordings of ranks [0] out of 2"),
        (
            recording(runs=[{"ended": "exit code 2", "loaders": []}]),
            "the program ended with exit code 2",
        ),
    ],
)
def test_bad_recording_prints_one_line_and_exits_with_2(
    value: Any, says: str, tmp_path: Path
) -> None:
    bad = write(tmp_path / "bad.json", value)
    if "ranks [0]" in says:
        bad = bad.rename(tmp_path / "bad.rank-0.json")
    good = write(tmp_path / "good.json", recording(loader_at(0)))
    for pair in ((bad, good), (good, bad)):
        code, output = run(*pair)
        assert code == 2, output
        assert says in output
        assert output.count("\n") == 1


def test_missing_recording_exits_with_2(tmp_path: Path) -> None:
    code, output = run(tmp_path / "none.json", tmp_path / "none.json")
    assert code == 2
    assert "there is no recording" in output
    code, output = run(tmp_path, tmp_path)
    assert code == 2
    assert "is not a complete recording (IsADirectoryError" in output


def test_recording_of_different_program_exits_with_2(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", recording(loader_at(0)))
    code, output = run(path, "--", "other.py")
    assert code == 2
    assert "is a recording of train.py, not of other.py: pass the same program\n" in output
    path = write(tmp_path / "b.json", recording(loader_at(0), program="ads.train"))
    assert "pass the same program, as -- -m ads.train" in run(path, "--", "ads/train.py")[1]


def test_recordings_with_different_world_sizes_exit_with_2(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", recording(loader_at(0)))
    for rank in range(2):
        value = recording(loader_at(0), rank=rank, ranks=2)
        write(tmp_path / f"two.rank-{rank}.json", value)
    code, output = run(one, tmp_path / "two.json")
    assert code == 2
    assert "with world size 1, and" in output
    code, output = run(tmp_path / "two.rank-0.json", "--", "train.py")
    assert code == 2
    assert "torchrun" in output


def test_wrong_number_of_recordings_exits_with_2(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", recording(loader_at(0)))
    assert run(path)[0] == run()[0] == run(path, path, path)[0] == 2


@pytest.mark.parametrize("program", [["train.py", "--epochs", "1"], ["-m", "trainer.main"]])
def test_missing_dashes_before_program_raise_usage_error(
    program: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.json", recording(loader_at(0)))
    code, output = run(path, *program)
    assert code == 2
    assert f"-- is missing before {program[0]}: mdstorm compare RECORDING" in output


def test_argument_after_recorder_option_is_ignored() -> None:
    code, output = run("--recorder", "record.py")
    assert (code, output.rstrip()) == (0, RECORDER.read_text().rstrip())


def shares(rank: int, rows: int, digest: int) -> dict[str, Any]:
    value = loader_at(0, arguments={"cur_shard": rank, "shard_count": 2})
    column = dict(value["data"]["columns"]["id"], digest=f"{digest:x}")
    value["data"] = dict(value["data"], rows=rows, digest=f"{digest:x}", columns={"id": column})
    return value


def test_shares_recorded_by_ranks_are_compared_as_their_union(tmp_path: Path) -> None:
    top = 2**128 - 1
    for name, parts in (("a", [(6, 5), (2, 9)]), ("b", [(4, top), (4, 15)])):
        for rank, (rows, digest) in enumerate(parts):
            value = recording(shares(rank, rows, digest), rank=rank, ranks=2)
            write(tmp_path / f"{name}.rank-{rank}.json", value)
    code, output = run(tmp_path / "a.json", tmp_path / "b.json")
    assert code == 0, output
    assert "8 rows" in output


@pytest.mark.parametrize(
    ("before", "now", "code"), [(32, 16, 1), (32, 32, 0), (None, 1, 0), (1, None, 0)]
)
def test_batch_size_of_shares_is_compared_if_both_programs_give_it(
    before: int | None, now: int | None, code: int, tmp_path: Path
) -> None:
    paths = []
    for name, size in (("before", before), ("now", now)):
        values = [shares(rank, 4, 1) for rank in range(2)]
        for value in values:
            value["arguments"] |= {} if size is None else {"batch_size": size}
        paths.append(write(tmp_path / f"{name}.json", recording(*values)))
    found, output = run(*paths)
    assert found == code, output
    assert ("batches: batch_size 32, then 16" in output) == (code == 1)


def test_recording_with_missing_shard_is_not_comparable(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", recording(shares(0, 4, 1)))
    other = write(tmp_path / "other.json", recording(shares(0, 4, 2)))
    code, output = run(one, other)
    assert code == 2
    assert "does not contain shard 1 of 2" in output


@pytest.mark.parametrize(("times", "code"), [(3, 0), (2, 1)])
def test_one_recorded_epoch_is_compared_with_several_recorded_epochs(
    times: int, code: int, tmp_path: Path
) -> None:
    once, thrice = loader_at(0, kind="make_tf_dataset"), loader_at(0, kind="make_tf_dataset")
    for value, factor in ((once, 1), (thrice, 3)):
        column = value["data"]["columns"]["id"]
        column |= {"digest": f"{5 * factor:x}", "rest": f"{7 * factor:x}"}
        value["data"] |= {"rows": 8 * factor, "digest": f"{9 * factor:x}"}
    once["data"]["times"] = times
    once["passes"] = [[2, 8, False]]
    one = write(tmp_path / "one.json", recording(once))
    other = write(tmp_path / "other.json", recording(thrice))
    found, output = run(one, other)
    assert found == code, output


def test_loader_that_was_not_read_is_not_comparable(tmp_path: Path) -> None:
    value = loader_at(0, note="no pass over it was completed")
    del value["data"]
    one = write(tmp_path / "one.json", recording(value))
    other = write(tmp_path / "other.json", recording(loader_at(0)))
    code, output = run(one, other)
    assert code == 2
    assert "no pass over it was completed" in output


def test_row_counts_are_compared_if_values_could_not_be_hashed(tmp_path: Path) -> None:
    values = [loader_at(0, note="its items are set objects") for _ in range(3)]
    for value in values:
        del value["data"]
    values[2]["passes"] = [[2, 7, True]]
    one, same, other = (
        write(tmp_path / f"{number}.json", recording(value)) for number, value in enumerate(values)
    )
    code, output = run(one, same)
    assert (code, "its items are set objects" in output) == (2, True), output
    code, output = run(one, other)
    assert (code, "pass 1: 8 rows, then 7" in output) == (1, True), output


def test_recording_with_note_from_version_0_1_is_not_comparable(tmp_path: Path) -> None:
    value = loader_at(0)
    value["data"]["note"] = "columns in a batch have different lengths"
    code, output = run(*[write(tmp_path / "one.json", recording(value))] * 2)
    assert (code, "columns in a batch have different lengths" in output) == (2, True), output


def test_loader_made_by_different_function_is_not_comparable(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", recording(loader_at(0)))
    other = write(tmp_path / "other.json", recording(loader_at(0, function="renamed")))
    code, output = run(one, other)
    assert code == 2
    assert output.count("has no loader of this kind in this function") == 2


def random_runs(*digests: int) -> dict[str, Any]:
    runs = []
    for digest in digests:
        value = loader_at(0)
        value["data"]["columns"]["id"]["digest"] = f"{digest:x}"
        runs.append({"ended": None, "loaders": [value]})
    return recording(runs=runs)


@pytest.mark.parametrize(("digests", "code"), [((1, 2), 0), ((1, 1), 1), ((1,), 1)])
def test_values_that_differ_between_two_runs_are_not_compared(
    digests: tuple[int, ...], code: int, tmp_path: Path
) -> None:
    one = write(tmp_path / "one.json", random_runs(*digests))
    other = write(tmp_path / "other.json", random_runs(3))
    found, output = run(one, other)
    assert found == code
    assert ("random, so compared by dtype" in output) == (code == 0)
    assert ("recorded once" in output) == (len(digests) == 1)


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (["a", "", None, None], 0),
        (["a", None, None, None], 1),
        (["a", "", "None", None], 0),
        (["b", "", None, None], 1),
    ],
)
def test_only_the_strings_none_may_become_nulls(
    now: list[str | None], code: int, tmp_path: Path
) -> None:
    found, output = compare_loaders(tmp_path, loader_of(["a", "", "None", "None"]), loader_of(now))
    assert found == code, output
    assert "column x: nulls: 0 nulls, then" in output
    assert ("documented: a null in a string column" in output) == (code == 0)


def test_nulls_in_random_text_are_documented(tmp_path: Path) -> None:
    runs = [{"ended": None, "loaders": [loader_of([value, "None"])]} for value in "ab"]
    old = write(tmp_path / "old.json", recording(runs=runs))
    new = write(tmp_path / "new.json", recording(loader_of(["c", None])))
    assert run(old, new)[0] == 0


def computed(total: float, **arguments: str) -> dict[str, Any]:
    value = loader_at(0, arguments=arguments)
    numbers = {"minimum": 0.0, "maximum": 1.0, "sum": total, "magnitude": total, "squares": total}
    value["data"]["columns"]["id"] |= {
        **numbers,
        "dtypes": ["float32"],
        "digest": f"{hash(total):x}",
    }
    return recording(value)


@pytest.mark.parametrize(
    ("change", "arguments", "code"),
    [
        (1 + 1e-8, {"transform_spec": "TransformSpec"}, 0),
        (1 + 1e-5, {"transform_spec": "TransformSpec"}, 1),
        (1 + 1e-8, {}, 1),
    ],
)
def test_computed_floats_may_differ_by_rounding(
    change: float, arguments: dict[str, str], code: int, tmp_path: Path
) -> None:
    one = write(tmp_path / "one.json", computed(5.0, **arguments))
    other = write(tmp_path / "other.json", computed(5.0 * change, **arguments))
    found, output = run(one, other)
    assert found == code, output
    assert ("differ by rounding" in output) == (code == 0)


def test_recorder_option_prints_recorder(tmp_path: Path) -> None:
    code, output = run("--recorder")
    assert code == 0
    assert output == RECORDER.read_text("utf-8")


SHARES = """
import os, sys
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with DataLoader(make_batch_reader(sys.argv[1], cur_shard=rank, shard_count=count)) as loader:
    for batch in loader:
        pass
"""


@pytest.mark.long
def test_each_rank_writes_recording_and_all_ranks_are_compared_together(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "shares.py").write_text(SHARES)
    url = (folder / "one").as_uri()
    for rank in range(2):
        command = [sys.executable, "-m", "mdstorm", "run", RECORDER, "shares.py", url]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "RANK": f"{rank}", "WORLD_SIZE": "2"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("shares.recording.rank-?.json"))) == 2
    path = tmp_path / "shares.recording.json"
    code, output = run(path, path)
    assert code == 0, output
    assert "equal           20 rows, 2 columns" in output


FINALIZES_ITS_GRAPH = """
import tensorflow as tf
from petastorm.tf_utils import make_petastorm_dataset

def of_tensorflow(url):
    with tf.Graph().as_default() as graph, make_batch_reader(url, num_epochs=None) as reader:
        row = make_petastorm_dataset(reader).make_one_shot_iterator().get_next()
        graph.finalize()
        with tf.compat.v1.Session() as session:
            session.run(row)

others = [of_tensorflow]
"""
DELETES_ITS_FILES = """
import shutil, sys, tempfile
from petastorm import make_batch_reader
from petastorm.pytorch import DataLoader

{others}
def of_loader(url):
    with DataLoader(make_batch_reader(url, num_epochs=None), batch_size=4) as loader:
        next(iter(loader))

def of_reader(url):
    with make_batch_reader(url, num_epochs=None) as reader:
        next(iter(DataLoader(reader, batch_size=4)))

def batches(url):
    with DataLoader(make_batch_reader(url, num_epochs=None), batch_size=4) as loader:
        yield from loader

def of_generator(url):
    for batch in batches(url):
        break

for function in (of_loader, of_reader, of_generator, *others):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(sys.argv[1], folder)
        function("file://" + folder)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("others", "count"),
    [("others = []", 3), (FINALIZES_ITS_GRAPH, 4)],
)
def test_full_pass_is_read_before_the_program_deletes_its_files(
    others: str, count: int, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "deletes.py").write_text(DELETES_ITS_FILES.format(others=others))
    command = [sys.executable, "-m", "mdstorm", "run", RECORDER, "--runs", "1"]
    done = subprocess.run(
        [*command, "deletes.py", folder / "one" / "part-0.parquet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "deletes.recording.json").read_text())["runs"]
    assert [one.get("note") for one in run["loaders"]] == [None] * count
    assert [one["data"]["rows"] for one in run["loaders"]] == [20] * count
    assert not any(is_complete for one in run["loaders"] for *_, is_complete in one["passes"])


_KEEPS_ORDER = {"shuffle_row_groups": False}


@pytest.mark.parametrize(
    ("changed", "arguments", "says"),
    [
        ({"ordered": "7"}, _KEEPS_ORDER, "order: equal rows in a different order"),
        ({"ordered": "7"}, {}, ""),
        ({"ordered": "7"}, {**_KEEPS_ORDER, "shuffle_rows": True}, ""),
        ({"digest": "7"}, {}, "column id: values: different values"),
        ({"nulls": 3}, {}, "column id: nulls: 0 nulls, then 3"),
        ({"dtypes": ["int64"]}, {}, "column id: dtype: float32, then int64"),
        ({"shapes": ["[2]"]}, {}, "column id: shape: [], then [2]"),
    ],
)
def test_each_column_difference_is_reported(
    changed: dict[str, Any], arguments: dict[str, Any], says: str, tmp_path: Path
) -> None:
    one = write(tmp_path / "one.json", recording(loader_at(0, arguments=arguments)))
    value = loader_at(0, arguments=arguments)
    value["data"]["columns"]["id"] |= changed
    code, output = run(one, write(tmp_path / "other.json", recording(value)))
    assert (code, says in output) == (bool(says), True), output


def with_constant(ordered: str, rows: str = "1") -> dict[str, Any]:
    """Return a loader with two columns, one of which is constant and the same in any order."""
    value = loader_at(0, arguments=_KEEPS_ORDER)
    columns = value["data"]["columns"]
    columns["flag"] = dict(columns["id"], rest=columns["id"]["digest"])
    columns["id"] = dict(columns["id"], ordered=ordered)
    value["data"]["digest"] = rows
    return value


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("1", "order: equal rows in a different order"),
        ("2", "column id: pairing: equal values in different rows"),
    ],
)
def test_changed_order_and_pairing_are_distinguished_despite_a_constant_column(
    rows: str, says: str, tmp_path: Path
) -> None:
    one = write(tmp_path / "one.json", recording(with_constant("5")))
    other = write(tmp_path / "other.json", recording(with_constant("6", rows)))
    code, output = run(one, other)
    assert code == 1
    assert says in output


def test_order_that_differs_between_two_runs_in_one_column_is_not_compared(tmp_path: Path) -> None:
    runs = [{"ended": None, "loaders": [with_constant(ordered)]} for ordered in ("5", "6")]
    one = write(tmp_path / "one.json", recording(runs=runs))
    other = write(tmp_path / "other.json", recording(with_constant("7")))
    code, output = run(one, other)
    assert code == 0, output


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"rows": 7}, "rows: 8 rows, then 7"),
        ({"digest": "5"}, "pairing: equal columns, but different values share a row"),
        ({"sizes": {"8": 1}}, "batches: 2 of 4, then 1 of 8"),
    ],
)
def test_each_pass_difference_is_reported(
    changed: dict[str, Any], says: str, tmp_path: Path
) -> None:
    one = write(tmp_path / "one.json", recording(loader_at(0)))
    value = loader_at(0)
    value["data"] |= changed
    code, output = run(one, write(tmp_path / "other.json", recording(value)))
    assert code == 1
    assert says in output


def test_different_number_of_passes_or_calls_is_reported(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", recording(loader_at(0), loader_at(1)))
    twice = loader_at(0, passes=[[2, 8, True], [2, 8, True]])
    code, output = run(one, write(tmp_path / "other.json", recording(twice)))
    assert code == 1
    assert "passes: 1 passes, then 2" in output
    assert "calls: call 2 of this function is not in" in output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ({"seed": 3}, {"seed": 4}, "other arguments: seed 3, then 4"),
        ({}, {"shard_seed": 4}, "other arguments: shard_seed None, then 4"),
        (
            {"seed": 3, "shuffle_rows": True},
            {"seed": 4, "shuffle_rows": False},
            "other arguments: seed 3, then 4; shuffle_rows True, then False",
        ),
        ({"seed": 3}, {"seed": 3}, ""),
        ({"reader_pool_type": None}, {}, ""),
    ],
)
def test_different_arguments_are_printed_with_an_equal_result(
    old: dict[str, Any], new: dict[str, Any], says: str, tmp_path: Path
) -> None:
    loaders = (loader_at(0, arguments=arguments) for arguments in (old, new))
    code, output = compare_loaders(tmp_path, *loaders)
    assert (code, "equal" in output) == (0, True), output
    assert says in output
    assert ("other arguments" in output) == bool(says)


#: A loader with a difference that docs/differences.md describes.
_FILTERED = {"filters": "list"}


def filtered(rows: int, **changed: Any) -> dict[str, Any]:
    value = loader_at(0, arguments=_FILTERED, passes=[[2, rows, True]], **changed)
    value["data"]["rows"] = rows
    return value


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ([], 0),
        ([(loader_at(1), loader_at(1))], 0),
        ([(loader_at(1), loader_at(1, passes=[]))], 1),
        ([(loader_at(1), loader_at(1, data=None, note="none"))], 2),
    ],
)
def test_documented_differences_are_printed_without_failing(
    others: list[tuple[dict[str, Any], dict[str, Any]]], code: int, tmp_path: Path
) -> None:
    pairs = [(filtered(8), filtered(7)), *others]
    paths = (
        write(tmp_path / f"{side}.json", recording(*(pair[side] for pair in pairs)))
        for side in (0, 1)
    )
    found, output = run(*paths)
    assert found == code, output
    assert "rows: 8 rows, then 7; documented: Petastorm applies filters only to" in output
    assert output.splitlines()[-1].endswith("different only as docs/differences.md documents")


def test_documented_difference_of_loader_without_data_is_not_comparable(tmp_path: Path) -> None:
    note = {"data": None, "note": "its items are sets"}
    code, output = compare_loaders(tmp_path, filtered(8) | note, filtered(7) | note)
    assert code == 2, output
    assert "documented: Petastorm applies filters" in output
    assert "the recording: its items are sets" in output
