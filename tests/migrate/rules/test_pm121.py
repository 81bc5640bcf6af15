"""Pickles of Petastorm's objects."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop

from mdstorm_migrate.api import migrate

READER = "from petastorm import make_reader\n"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("s = pickle.loads(meta[UNISCHEMA_KEY])", "pickle.loads(meta[UNISCHEMA_KEY])"),
        ("schema = pickle.load(f)", "pickle.load(f)"),
        ("def f():\n    return joblib.load('converter.pkl')", "joblib.load('converter.pkl')"),
        (
            "blob = meta[b'dataset-toolkit.unischema.v1']\nx = pickle.loads(blob)",
            "pickle.loads(blob)",
        ),
        (
            "assert isinstance(pickle.loads(one), petastorm.unischema.Unischema)",
            "pickle.loads(one)",
        ),
    ],
)
def test_its_file_waits(text: str, fragment: str) -> None:
    check_noop(READER + text)
    check_finding(READER + text, "PM121", fragment)


def test_other_pickles_are_noted() -> None:
    result = migrate(READER + "model = pickle.load(f)\n")
    assert result.changed
    assert [one.cls for one in result.findings] == ["note"]
    assert not migrate("# petastorm\nschema = pickle.load(f)\n").findings
    assert not migrate(READER + "net.load_state_dict(torch.load(path))\n").findings


SCHEMA = "from petastorm.unischema import Unischema\nSCHEMA = Unischema('S', [])\n"


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("pickle.dump(SCHEMA, f)", "pickle.dump(SCHEMA, f)"),
        ("pickle.dump(SCHEMA.fields, f)", "pickle.dump(SCHEMA.fields, f)"),
        ("joblib.dump({'s': SCHEMA}, 'a.pkl')", "joblib.dump({'s': SCHEMA}, 'a.pkl')"),
        ("torch.save((model, SCHEMA), 'm.pt')", "torch.save((model, SCHEMA), 'm.pt')"),
        ("self.s = Unischema('T', [])\ncloudpickle.dump(self.s, f)", "cloudpickle.dump(self.s, f)"),
        ("q.put(pickle.dumps(Unischema('T', [])))", "pickle.dumps(Unischema('T', []))"),
    ],
)
def test_what_is_pickled_for_others_waits(text: str, fragment: str) -> None:
    check_noop(SCHEMA + text)
    check_finding(SCHEMA + text, "PM121", fragment)


@pytest.mark.parametrize(
    "text",
    [
        "torch.save(model.state_dict(), 'm.pt')",
        "pickle.dump(SCHEMA.name, f)",
        "json.dump(SCHEMA, f)",
        "blob = pickle.dumps(SCHEMA)\ncopy = pickle.loads(blob)",
        "pickle.dump(len(SCHEMA), f)",
    ],
)
def test_what_is_not_pickled_or_loaded_at_once_does_not(text: str) -> None:
    result = migrate(SCHEMA + text)
    assert result.changed
    assert {one.cls for one in result.findings} <= {"note"}


def test_an_unpickler_that_knows_petastorm_needs_manual_review() -> None:
    text = (
        "class Safe(pickle.Unpickler):\n    def find_class(self, module, name):\n"
        "        assert module.startswith('petastorm.')\n"
    )
    check_noop(READER + text)
    check_finding(READER + text, "PM121", "'petastorm.'")
    check_finding(text, "PM121", "'petastorm.'")


def test_an_unpickler_whose_names_are_in_a_table_is_named_once() -> None:
    text = (
        "class Safe(pickle.Unpickler):\n    SAFE = ('petastorm.', 'numpy')\n"
        "    def find_class(self, module, name):\n        assert module.startswith(self.SAFE)\n"
    )
    check_finding(text, "PM121", "'petastorm.'")
    assert len(migrate(text).findings) == 1
