"""Annotations that are text."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite


@pytest.mark.parametrize(
    "text",
    [
        'def f(a: "petastorm.reader.Reader", *b: "petastorm.TransformSpec"): ...',
        'def f() -> "dict[str, petastorm.reader.Reader]": ...',
        'x: Annotated["petastorm.reader.Reader", "data"]',
        'x: "list[petastorm.unischema.Unischema] | None" = None',
        'x: Optional["petastorm.unischema.Unischema"]',
        'x = cast("petastorm.reader.Reader", y)',
        "x = []  # type: list[petastorm.reader.Reader]",
        "def f(a):\n    # type: (petastorm.reader.Reader) -> None\n    pass",
    ],
)
def test_they_follow_the_import(text: str) -> None:
    text = f"import petastorm\n{text}\n"
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "text",
    [
        'x: Literal["petastorm.reader"]',
        'x: "my.petastorm.reader"',
        'x: "petastorm_reader.Reader"',
        'x = "petastorm.reader"',
        "x = []  # of petastorm.reader.Reader, type: any",
        "x = []  # type: ignore  # petastorm.reader",
        "def f(petastorm):\n    x: 'petastorm.reader'",
        'x: Annotated[str, "petastorm.reader.Reader"]',
        'A = Annotated[str, Tag("petastorm.reader.Reader"), "petastorm.reader"]',
    ],
)
def test_other_text_stays(text: str) -> None:
    used = "import petastorm\npetastorm.make_reader\n"
    after = f"{used.replace('petastorm', 'mdstorm')}{text}\n"
    check_rewrite(f"{used}{text}\n", after, todo=False)


def test_an_annotation_that_cannot_move_keeps_an_import_for_it() -> None:
    before = 'import petastorm\ndef f(a: "petastorm.hdfs.Pool"): petastorm.make_reader\n'
    after = "import petastorm\nimport mdstorm\n" + before[17:].replace(
        "petastorm.make", "mdstorm.make"
    )
    check_rewrite(before, after, todo=False)
    check_finding(before, "PM107", "petastorm")


@pytest.mark.parametrize(
    "text",
    [
        'T = TypeVar("T", bound="petastorm.reader.Reader")',
        'T = TypeVar("T", "petastorm.reader.Reader", int)',
        'A = Optional["petastorm.reader.Reader"]',
        'A = typing.Callable[["petastorm.reader.Reader"], None]',
        'A: TypeAlias = "dict[str, petastorm.reader.Reader]"',
        'A = NewType("A", "petastorm.reader.Reader")',
        'class A(Sequence["petastorm.reader.Reader"]): ...',
    ],
)
def test_types_elsewhere_keep_the_name(text: str) -> None:
    uses = f"{text}\npetastorm.make_reader(url)\n"
    check_rewrite(f"import petastorm\n{uses}", f"import mdstorm as petastorm\n{uses}")


def test_types_elsewhere_that_mdstorm_lacks_keep_the_import() -> None:
    text = 'import petastorm\nA = Optional["petastorm.hdfs.Ventilator"]\n'
    check_noop(text)
    check_finding(text, "PM107", "petastorm")


@pytest.mark.parametrize(
    "made",
    [
        'Union["petastorm.reader.Reader", T]',
        'TypeVar("A", bound="petastorm.reader.Reader")',
        'TypeVar("A", "petastorm.reader.Reader", T)',
        'NewType("A", "petastorm.reader.Reader")',
        'Optional[ForwardRef("petastorm.reader.Reader")]',
    ],
)
def test_types_that_no_import_reaches_follow_the_others(made: str) -> None:
    text = f"from petastorm import TransformSpec as T\nA = {made}\n"
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


@pytest.mark.parametrize(
    "made",
    [
        'NamedTuple("A", [("petastorm", int)])',
        'TypedDict("A", {"petastorm.reader": int})',
        'TypeVar("petastorm", bound=int)',
    ],
)
def test_names_of_fields_stay(made: str) -> None:
    text = f"import petastorm.reader as r\nA = {made}\n"
    check_rewrite(text, text.replace("import petastorm", "import mdstorm"))


@pytest.mark.parametrize(
    "text", ['x = settings["petastorm.reader"]', 'A = NewType("petastorm.reader", int)']
)
def test_other_strings_say_nothing_of_the_name(text: str) -> None:
    check_rewrite(
        f"import petastorm\n{text}\npetastorm.make_reader\n",
        f"import mdstorm\n{text}\nmdstorm.make_reader\n",
    )


def test_a_type_that_no_import_reaches_follows_the_imports_of_functions() -> None:
    text = (
        'def f(schema: "petastorm.unischema.Unischema"):\n'
        "    from petastorm.unischema import dict_to_spark_row\n"
        "    return dict_to_spark_row(schema, {})\n"
    )
    check_rewrite(text, text.replace("petastorm", "mdstorm"))


def test_a_type_that_no_import_reaches_stays_with_what_stays() -> None:
    text = (
        'def f(schema: "petastorm.unischema.Unischema"):\n'
        "    from petastorm.unischema import _private\n"
    )
    check_noop(text)
