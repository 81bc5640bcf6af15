"""PM127: objects that are pickled, or passed to code that still uses Petastorm."""

import os
from pathlib import Path

import pytest
from tests.kit.migrating import (
    check_finding,
    check_held,
    check_moves,
    check_rewrite,
    each,
    write_files,
)

from mdstorm_migrate.api import migrate

HEAD = "import petastorm_contrib as pc\nfrom petastorm import make_reader\n\n"


@each(
    "with make_reader(url) as reader:\n    pc.wrap(reader)\n",
    "reader = make_reader(url)\npc.io.wrap(rows=reader.next)\n",
    "pc.wrap(make_reader(url))\n",
    "pc.wrap(make_reader, url)\n",
)
def test_third_party_call_with_petastorm_object_blocks_migration(use: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    check_held(HEAD + use, "PM127", "pc.io.wrap" if "io" in use else "pc.wrap", path)


def test_third_party_package_that_receives_no_petastorm_object_gets_note(tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    text = f"{HEAD}pc.log(url)\nmake_reader(url)\n"
    check_rewrite(text, text.replace("from petastorm", "from mdstorm"), path)
    check_finding(text, "PM127", "petastorm_contrib as pc", path)


@each("petastorm_contrib.py", "src/petastorm_contrib/__init__.py")
def test_project_module_is_not_third_party(place: str, tmp_path: Path) -> None:
    write_files(tmp_path, {place: ""})
    text = f"{HEAD}pc.wrap(make_reader(url))\n"
    after = text.replace("from petastorm", "from mdstorm")
    check_rewrite(text, after, str(tmp_path / "jobs" / "a.py"))


@each(
    ("from somelib import create", "create", '"m", petastorm_args={"schema": S}'),
    ("import store\nc = store.connect()", "c.write", 'df, data_format="petastorm", schema=S'),
    ("from hops import featurestore as fs", "fs.create", "df, S"),
    ("from somelib import create", "create", 'data_format="petastorm", petastorm_args=PUT'),
    ("from horovod.spark.data_loaders.pytorch_data_loaders import Loads", "Loads", "S, 32"),
    ("from somelib import create", "create", "petastorm_args=dict(schema=[S])"),
)
def test_third_party_function_with_schema_argument_blocks_migration(
    head: str, function: str, arguments: str
) -> None:
    head = f"{head}\nfrom petastorm.unischema import Unischema\n\n"
    text = (
        f'{head}S = Unischema("S", [])\nARGS = {{"schema": S}}\nPUT = {{}}\nPUT["schema"] = S\n'
        f"{function}({arguments})\n"
    )
    check_held(text, "PM127", function)


def test_migration_of_many_calls_makes_few_stat_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda *a, **k: looked.append(a) or stat(*a, **k))
    text = "import numpy as np\nfrom petastorm import make_reader\n" + "np.zeros(3)\n" * 100
    check_moves(text, str(tmp_path / "a.py"))
    assert len(looked) < 2_000


@each(
    'store.write(df, petastorm_args={"a": 1})',
    'store.write(df, data_format="petastorm")',
    'store.write(df, data_format="parquet", schema=S)',
    'write(df, petastorm_args={"schema": S})',
)
def test_call_without_petastorm_object_does_not_block_migration(call: str) -> None:
    text = (
        "import store\nfrom petastorm.unischema import Unischema\n\n"
        f'S = Unischema("S", [])\n\n\ndef write(df, petastorm_args):\n    pass\n\n\n{call}\n'
    )
    check_rewrite(text, text.replace("from petastorm", "from mdstorm"))


EXAMPLES = "from examples.mnist.schema import MnistSchema\nfrom petastorm import make_reader\n"


def test_import_of_petastorm_examples_blocks_migration(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "train.py"
    check_held(EXAMPLES, "PM127", "MnistSchema", str(path))
    (tmp_path / "examples" / "mnist").mkdir(parents=True)  # the project's own `examples`
    check_moves(EXAMPLES, str(path))
    check_moves(EXAMPLES.replace("mnist.schema", "ours"))  # a different examples package


READER = "import petastorm\n"
SCHEMA = "from petastorm.unischema import Unischema\nSCHEMA = Unischema('S', [])\n"


@each(
    (f"{READER}s = pickle.loads(meta[UNISCHEMA_KEY])", "pickle.loads(meta[UNISCHEMA_KEY])"),
    (f"{READER}schema = pickle.load(f)", "pickle.load(f)"),
    (f"{READER}isinstance(pickle.loads(one), petastorm.unischema.Unischema)", "pickle.loads(one)"),
    (f"{SCHEMA}pickle.dump(SCHEMA, f)", "pickle.dump(SCHEMA, f)"),
    (f"{SCHEMA}pickle.dump(SCHEMA.fields, f)", "pickle.dump(SCHEMA.fields, f)"),
    (f"{SCHEMA}torch.save((model, SCHEMA), 'm.pt')", "torch.save((model, SCHEMA), 'm.pt')"),
    (f"{SCHEMA}q.put(pickle.dumps(Unischema('T', [])))", "pickle.dumps(Unischema('T', []))"),
)
def test_pickle_of_petastorm_object_blocks_migration(text: str, fragment: str) -> None:
    check_held(text, "PM127", fragment)


@each(
    "torch.save(model.state_dict(), 'm.pt')",
    "pickle.dump(SCHEMA.name, f)",
    "blob = pickle.dumps(SCHEMA)\ncopy = pickle.loads(blob)",
    "model = pickle.load(f)",
    "net.load_state_dict(torch.load(path))",
)
def test_pickle_of_other_object_does_not_block_migration(text: str) -> None:
    result = migrate(SCHEMA + text)
    assert result.changed
    assert result.findings == ()


def test_pickle_in_file_without_petastorm_is_not_reported() -> None:
    assert migrate("# petastorm\nschema = pickle.load(f)\n").findings == ()
