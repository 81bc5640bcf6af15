"""PM118: `isinstance` checks for a class that a converter's loaders do not belong to."""

from tests.kit.migrating import check_finding, each

from mdstorm_migrate.api import migrate

LOADER = "from petastorm.pytorch import DataLoader\n"


@each(
    ("isinstance(x, DataLoader)", "DataLoader"),
    ("isinstance(x, (list, DataLoader))", "DataLoader"),
    (
        "import petastorm.pytorch\nisinstance(x, petastorm.pytorch.LoaderBase)",
        "petastorm.pytorch.LoaderBase",
    ),
)
def test_isinstance_check_for_petastorm_loader_is_reported(text: str, fragment: str) -> None:
    check_finding(LOADER + text, "PM118", fragment)


@each(
    "isinstance(x, list)",
    "l = DataLoader(r)\nisinstance(l, DataLoader)",
    "from petastorm.pytorch import InMemBatchedDataLoader as M\n"
    "k = M if fast else DataLoader\nl = k(r)\nisinstance(l, DataLoader)",
)
def test_isinstance_check_for_list_or_own_loader_is_not_reported(text: str) -> None:
    assert not migrate(LOADER + text).findings


@each(
    "type(x) is BatchedDataLoader",
    "type(x) in (list, BatchedDataLoader)",
    "BatchedDataLoader == x.__class__",
    "issubclass(type(x), BatchedDataLoader)",
    "match x:\n    case BatchedDataLoader(): ...",
)
def test_every_test_for_class_of_loader_is_reported(test: str) -> None:
    text = f"from petastorm.pytorch import BatchedDataLoader\n{test}\n"
    check_finding(text, "PM118", "BatchedDataLoader")


@each("BatchedDataLoader is None", "x is BatchedDataLoader", "f(x) == BatchedDataLoader")
def test_comparison_without_type_of_object_is_not_reported(test: str) -> None:
    text = f"from petastorm.pytorch import BatchedDataLoader\n{test}\n"
    assert not any(one.rule == "PM118" for one in migrate(text).findings)
