"""PM113: arguments that neither library accepts."""

from tests.kit.migrating import check_finding, each

from mdstorm_migrate.api import migrate
from mdstorm_migrate.petastorm.signatures import ACCEPTED


@each(
    ("from petastorm import make_reader\nmake_reader(u, batch_size=3)", "batch_size=3"),
    ("import petastorm\nconverter.make_torch_dataloader(shuffle=True)", "shuffle=True"),
    ("import petastorm\nargs = dict(epochs=1)\nc.make_tf_dataset(**args)", "epochs=1"),
    ("from petastorm.spark import make_spark_converter as m\nm(df, url='x')", "url='x'"),
    ("from petastorm import make_reader\nmake_reader(u, device='cuda')", "device='cuda'"),
)
def test_unknown_argument_is_reported_at_its_position(text: str, fragment: str) -> None:
    check_finding(text, "PM113", fragment)


@each(
    "make_reader(u, num_epochs=1, **args)",
    "def f(**args): make_reader(u, **args)",
    "args = {'seed': 1}\nif x: args = {'no': 1}\nmake_reader(u, **args)",
    "converter.make_torch_dataloader(device='cuda', transform_spec=t)",
)
def test_known_or_dynamic_argument_is_not_reported(text: str) -> None:
    found = migrate(f"from petastorm import make_reader\n{text}").findings
    assert not any(one.rule == "PM113" for one in found)


def test_rules_know_keywords_of_both_libraries() -> None:
    assert {"seed", "check_ranks", "version"} <= ACCEPTED["make_reader"]
    assert {"seed", "device", "transform_whole_shards"} <= ACCEPTED["make_torch_dataloader"]
