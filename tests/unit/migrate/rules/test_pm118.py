"""PM118: tests of a converter's loader for a class that it does not belong to."""

from tests.kit.migrating import check_finding, each

from mdstorm_migrate.api import migrate

LOADER = "from petastorm.pytorch import BatchedDataLoader, DataLoader\n"
MADE = f"{LOADER}with conv.make_torch_dataloader() as x: pass\n"


@each(
    ("isinstance(x, DataLoader)", "DataLoader"),
    ("isinstance(x, (list, DataLoader))", "DataLoader"),
    (
        "import petastorm.pytorch\nisinstance(x, petastorm.pytorch.LoaderBase)",
        "petastorm.pytorch.LoaderBase",
    ),
    ("def f(y): return isinstance(y, DataLoader)\nf(x)", "DataLoader"),
    ("type(x) is BatchedDataLoader", "BatchedDataLoader"),
    ("type(x) in (list, BatchedDataLoader)", "BatchedDataLoader"),
    ("BatchedDataLoader == x.__class__", "BatchedDataLoader"),
    ("issubclass(type(x), BatchedDataLoader)", "BatchedDataLoader"),
    ("self.assertIsInstance(x, DataLoader, 'text')", "DataLoader"),
    ("match x:\n    case BatchedDataLoader(): ...", "BatchedDataLoader"),
)
def test_test_for_class_of_converter_loader_is_reported(text: str, fragment: str) -> None:
    check_finding(f"{MADE}{text}\n", "PM118", fragment)


@each(
    f"{MADE}isinstance(x, list)",
    f"{LOADER}isinstance(x, DataLoader)",
    f"{LOADER}x = DataLoader(r)\nisinstance(x, DataLoader)",
    f"{LOADER}k = BatchedDataLoader if fast else DataLoader\nx = k(r)\nisinstance(x, DataLoader)",
    f"{MADE}BatchedDataLoader is None",
    f"{MADE}x is BatchedDataLoader",
    f"{MADE}f(x) == BatchedDataLoader",
)
def test_other_test_or_comparison_is_not_reported(text: str) -> None:
    assert not any(one.rule == "PM118" for one in migrate(f"{text}\n").findings)
