"""PM104: Petastorm names in annotations that are strings or comments."""

from tests.kit.migrating import check_finding, check_moves, check_rewrite, each


@each(
    'def f(a: "petastorm.reader.Reader", *b: "petastorm.TransformSpec"): ...',
    'def f() -> "dict[str, petastorm.reader.Reader]": ...',
    'x: "list[petastorm.unischema.Unischema] | None" = None',
    'x = cast("petastorm.reader.Reader", y)',
    "x = []  # type: list[petastorm.reader.Reader]",
    "def f(a):\n    # type: (petastorm.reader.Reader) -> None\n    pass",
)
def test_annotation_in_string_is_renamed(text: str) -> None:
    check_moves(f"import petastorm\n{text}\n")


@each(
    'x: Literal["petastorm.reader"]',
    'x: "my.petastorm.reader"',
    'x: "petastorm_reader.Reader"',
    'x = "petastorm.reader"',
    "x = []  # type: ignore  # petastorm.reader",
    "def f(petastorm):\n    x: 'petastorm.reader'",
)
def test_string_that_is_not_petastorm_annotation_is_unchanged(text: str) -> None:
    used = "import petastorm\npetastorm.make_reader\n"
    after = f"{used.replace('petastorm', 'mdstorm')}{text}\n"
    check_rewrite(f"{used}{text}\n", after, todo=False)


def test_annotation_without_counterpart_keeps_import_of_petastorm() -> None:
    before = 'import petastorm\ndef f(a: "petastorm.hdfs.Pool"): petastorm.make_reader\n'
    after = "import petastorm\nimport mdstorm\n" + before[17:].replace(
        "petastorm.make", "mdstorm.make"
    )
    check_rewrite(before, after, todo=False)
    check_finding(before, "PM107", "petastorm")


@each(
    'T = TypeVar("T", bound="petastorm.reader.Reader")',
    'Rows = List["petastorm.reader.Reader"]',
    'A: TypeAlias = "petastorm.reader.Reader"',
    'class A(Generic["petastorm.reader.Reader"]): ...',
    'eval("petastorm.make_reader")(url)',
    '"petastorm" in globals()',
)
def test_name_that_may_be_resolved_at_run_time_stays_bound(text: str) -> None:
    text = f"import petastorm\n{text}\npetastorm.make_reader\n"
    check_rewrite(text, text.replace("import petastorm", "import mdstorm as petastorm"))


def test_annotation_without_import_in_scope_is_renamed() -> None:
    check_moves('def f(a: "petastorm.reader.Reader"):\n    from petastorm import make_reader\n')
