"""Rules follow a value through every way to give it a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_migrate.api import migrate

#: Statements that bind a name to a value, to a part of it, or to what contains it.
FORMS = [
    "{name} = {value}",
    "{name}: object = {value}",
    "first = {name} = {value}",
    "{name} = first = {value}",
    "{name}, first = {value}, 1",
    "[first, *{name}] = [{value}]",
    "(first, ({name}, last)) = {value}",
    "{name} += {value}",
    "if ({name} := {value}): pass",
    "for {name} in [{value}]: pass",
    "for first, ({name}, _) in [{value}]: pass",
    "async def f():\n    async for {name} in {value}: pass",
    "with {value} as {name}: pass",
    "match {value}:\n    case {name}: pass",
    "match [{value}]:\n    case [first, *{name}]: pass",
    "match {value}:\n    case {{'key': {name}}} | {{**{name}}}: pass",
    "{name} = [each for each in [{value}]]",
    "{name} = {{each: 1 for each in [{value}] if each}}",
    "[print({name}) for {name} in [{value}]]",
    "{name} = {value} if condition else None",
    "{name} = None or {value}",
    "{name} = {{'key': {value}}}",
    "{name} = [*{value}]",
    "{name} = {value}[0]",
    "{name} = str({value})",
    "{name} = f'{{{value}}}'",
    "{name} = []\n{name}.append({value})",
    "{name} = {{}}\n{name}['key'] = {value}",
    "{name} = {{}}\n{name}.setdefault('key', {value})",
    "self.{name} = {value}",
    "class Settings:\n    {name} = {value}",
    "{name}, = [{value}]",
    "{name} = [{value}][0]",
    "{name} = tuple([{value}])",
    "for {name} in [{value}][:1]: pass",
    "{name} = 'x' + {value}",
    "{name} = '%s' % {value}",
]
#: Calls that return a value, or what contains it; only objects of Petastorm are followed in them.
CALLS = [
    "{name} = [{value}].pop()",
    "{name} = {{'key': {value}}}.get('key')",
    "for first, {name} in {{'key': {value}}}.items(): pass",
    "{name} = {value}.strip()",
    "for index, {name} in enumerate([{value}]): pass",
    "for first, {name} in zip([1], [{value}]): pass",
    "for {name} in sorted([{value}]): pass",
    "{name} = list(reversed([{value}]))",
    "{name} = next(iter([{value}]))",
    "{name} = dict(key={value})['key']",
    "{name} = '{{}}'.format({value})",
    "{name} = ','.join([{value}])",
    "{name} = os.path.join('x', {value})",
    "{name} = copy.copy({value})",
    "def f(given): return given\n{name} = f({value})",
    "def f(given=None): return given\n{name} = f(given={value})",
    "def f():\n    yield {value}\nfor {name} in f(): pass",
    "def f(): return {value}\n{name} = run(f)",
    "def f(given): return given\n{name} = run(f, {value})",
    "def f(given): return given\n{name} = run(f, args=({value},))",
    "def f(given): return given\n{name} = partial(f, {value})()",
    "class A:\n    @staticmethod\n    def f(given): return given\n{name} = A.f({value})",
    "class A:\n    @classmethod\n    def f(cls, given): return given\n{name} = A.f({value})",
    "class A:\n    def f(self, given): return given\n{name} = A().f({value})",
    "class A:\n    @classmethod\n    def f(cls, given): return given\n{name} = A().f({value})",
    "class A:\n    @staticmethod\n    def f(given): return given\n{name} = A().f({value})",
    "class A:\n    def __init__(self, x): self.x = x\n{name} = A({value}).x",
    "class A:\n    @property\n    def x(self): return {value}\n{name} = A().x",
    "@dataclass\nclass A:\n    x: object\n{name} = A({value}).x",
]
#: What a value is, how it is used, and the rule with a finding there.
USES = {
    "files of a converter": (
        "from petastorm.spark import make_spark_converter\nc = make_spark_converter(df)\n",
        "c.file_urls",
        "open({})",
        "PM119",
    ),
    "version": ("import petastorm\n", "petastorm.__version__", "assert {} > '0.9'", "PM107"),
}


def is_found(use: str, forms: list[str]) -> bool:
    """Return whether the value is found where it is used after each form has renamed it."""
    head, value, used, rule = USES[use]
    lines = []
    for number, form in enumerate(forms):
        name = f"name{number}"
        lines.append(form.format(name=name, value=value))
        value = f"self.{name}" if form.startswith("self.") else name
    result = migrate(f"{head}{chr(10).join(lines)}\n{used.format(value)}\n", todo=False)
    assert result.errors == ()
    return rule in {found.rule for found in result.findings}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("form", FORMS)
def test_value_is_found_under_each_name_that_it_is_given(use: str, form: str) -> None:
    assert is_found(use, [form])


#: Code with a name `x` in two scopes, and whether both are the same value.
SCOPES = [
    ("def f():\n    x = {value}\ndef g(x):\n    {used}\n", False),
    ("def f():\n    self.n[x] = {value}\n    y(self, x)\ndef g(self, x):\n    {used}\n", False),
    ("def g(y, x):\n    {used}\ng(1, {value})\n", True),
    ("def g(y, *, x=1):\n    {used}\nx = {value}\ng(1, x=x)\n", True),
    ("class C:\n    def g(self, x):\n        {used}\nC().g({value})\n", True),
    ("def f():\n    global x\n    x = {value}\ndef g():\n    {used}\n", True),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("code", "is_same"), SCOPES)
def test_value_is_found_in_scopes_that_it_reaches(use: str, code: str, is_same: bool) -> None:
    head, value, used, rule = USES[use]
    result = migrate(head + code.format(value=value, used=used.format("x")), todo=False)
    assert result.errors == ()
    assert (rule in {found.rule for found in result.findings}) is is_same


@pytest.mark.parametrize("call", CALLS)
def test_files_are_found_through_calls(call: str) -> None:
    assert is_found("files of a converter", [call])


@given(st.sampled_from([*USES]), st.lists(st.sampled_from(FORMS), min_size=2, max_size=3))
def test_value_is_found_through_several_names(use: str, forms: list[str]) -> None:
    assert is_found(use, forms)
