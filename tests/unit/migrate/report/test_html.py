"""The HTML report."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.kit.migrating import each, write_files
from tests.unit.migrate.report.reports import MIXED, report_of, report_of_text

from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.html import to_html
from mdstorm_migrate.rules import all_rules

HOSTILE = "import petastorm.spark  # </script><script>document.title = 'owned'</script>\n"
VOID = {"col", "input", "meta"}


class Checker(HTMLParser):
    """A parser that fails if an element on the page is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def checked(page: str) -> Checker:
    found = Checker(page)
    assert not found.open
    return found


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    (tmp_path / "broken.py").write_text("import petastorm\nprint 'x'\n")
    (tmp_path / "hostile.py").write_text(HOSTILE)
    return to_html(report_of_text(tmp_path, MIXED, '<img src=x onerror="f()">&.py'))


def test_html_report_is_well_formed_self_contained_and_without_scripts(mixed: str) -> None:
    found = checked(mixed)
    assert not found.all("script")
    for _, attributes in found.seen:
        assert not {"src", "style", "onclick", "onerror"} & set(attributes)
        assert attributes.get("href", "#PM").startswith("#PM")  # type: ignore[union-attr]
    assert "http:" not in mixed
    assert "https:" not in mixed
    policy = found.all("meta")[1]["content"] or ""
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_html_totals_are_those_of_terminal(mixed: str) -> None:
    totals = re.findall(r'<li class="\w*"><b>(\d+)</b> (.*)</li>', mixed)
    assert totals[:3] == [
        ("2", "files would change"),
        ("2", "exact edits"),
        ("1", "edit to review, which --unsafe applies"),
    ]


def test_html_items_have_class_rule_place_and_message(mixed: str) -> None:
    items = [
        re.sub(r"<.*?>|\s+", " ", item).split()
        for item in re.findall('<li class="item">(.*?)</li>', mixed, re.DOTALL)
    ]
    assert [" ".join(item[:3]) for item in items] == [
        "exact PM101 1:6",
        "review PM103 2:12",
        "manual PM107 3:33",
        "note PM109 5:1",
        "error line 2:",
        "exact PM101 1:8",
    ]
    assert items[3][3:7] == ["the", "arguments", "in", "**options"]


def test_html_link_to_rule_leads_into_its_page(mixed: str) -> None:
    found = checked(mixed)
    links = {one["href"] for one in found.all("a")}
    pages = {f"#{one['id']}" for one in found.all("pre") if "id" in one}
    assert links == pages == {"#PM101", "#PM103", "#PM107", "#PM109"}
    (rule,) = (one for one in all_rules() if one.code == "PM109")
    assert rule.explain() in html.unescape(mixed)


def test_html_checklist_lists_manual_findings_and_errors(mixed: str) -> None:
    todo = re.findall(r'<li class="group"><span class="badge \w+">(\w+)</span>', mixed)
    assert todo == ["PM107", "error"]
    assert len(checked(mixed).all("input")) == 2
    assert mixed.count("<label>") == 2


def test_html_checklist_groups_equal_findings_largest_group_first(tmp_path: Path) -> None:
    text = "from petastorm.reader import Ventilator\n"
    write_files(tmp_path, dict.fromkeys(("a/x.py", "a/y.py", "b/z.py"), text))
    write_files(tmp_path, {"0.py": "from petastorm.hdfs import x\n"})
    page = to_html(report_of(tmp_path))
    assert page.count('<li class="group">') == 2
    places = re.findall('<label>.*?<span class="path">(.*?)</span>', page)
    names = ("a/x.py:1:30", "a/y.py:1:30", "b/z.py:1:30", "0.py:1:28")
    assert places == [f"{tmp_path}/{name}" for name in names]
    assert f"3 places in 3 files: {tmp_path}/a/ 2, {tmp_path}/b/ 1</summary>" in page
    assert "To do by hand (4)" in page


def test_backticks_become_html_code_elements(mixed: str) -> None:
    assert "<code>petastorm.unischema._fullmatch</code> is private" in mixed
    assert "`" not in re.sub("<pre.*?</pre>", "", mixed, flags=re.DOTALL)


def test_html_diff_of_notebook_shows_cells(tmp_path: Path) -> None:
    used = ["import petastorm\n", "y = 'é'\n", "petastorm.reader.Ventilator"]
    sources = (["x = 1\n"], used, ["z"])
    cells = [{"cell_type": "code", "source": source, "outputs": []} for source in sources]
    text = json.dumps({"cells": cells, "metadata": {}}, indent=1)
    page = to_html(report_of_text(tmp_path, text, "a.ipynb"))
    assert re.findall("<h3>(.*?)</h3>", page) == ["Cell 2"]
    (diff,) = re.findall('<pre class="diff">.*?</pre>', page, re.DOTALL)
    assert "&#34;" not in diff
    assert "\\n" not in diff
    assert "y = &#39;é&#39;" in diff


def test_html_diff_marks_its_lines(tmp_path: Path) -> None:
    page = to_html(report_of_text(tmp_path, "a = 1\nimport petastorm as p\n"))
    (diff,) = re.findall('<pre class="diff">.*?</pre>', page, re.DOTALL)
    assert re.findall("<span.*</span>", diff) == [
        '<span class="place">@@ -1,2 +1,2 @@</span>',
        '<span class="same"> a = 1</span>',
        '<span class="old">-import petastorm as p</span>',
        '<span class="new">+import mdstorm as p</span>',
    ]


def test_html_report_for_many_files_is_collapsed(tmp_path: Path) -> None:
    for number in range(21):
        (tmp_path / f"m{number:02}.py").write_text("import petastorm as p\n")
    details = checked(to_html(report_of(tmp_path))).all("details")
    files = [one for one in details if one["class"] == "file"]
    assert len(files) == 21
    assert not any("open" in one for one in files)
    (tmp_path / "m00.py").unlink()
    files = checked(to_html(report_of(tmp_path))).all("details")
    assert sum("open" in one for one in files) == 20


@each(8, 9)
def test_html_finding_with_many_locations_is_collapsed(places: int, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("from petastorm.reader import Ventilator\n" * places)
    found = checked(to_html(report_of(tmp_path))).all("details")
    assert [("open" in one) for one in found if "class" not in one] == [places == 8]


def test_html_report_without_files_states_that_no_file_uses_petastorm(tmp_path: Path) -> None:
    page = to_html(report_of(tmp_path))
    checked(page)
    assert "No scanned file uses Petastorm" in page


def test_html_report_lists_conditions_and_skipped_paths(tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to("nowhere")
    report = report_of(tmp_path)
    report.conditions.append(Condition("pin", "`numpy<1`; mdstorm needs more", Path("a.txt"), 3))
    page = to_html(report)
    assert '<span class="path">a.txt:3</span> <code>numpy&lt;1</code>; mdstorm needs more' in page
    assert f'<span class="path">{tmp_path}/gone.py</span>: a broken link' in page
    assert "not migrated: a broken link" in page


def test_invisible_and_special_characters_are_escaped_in_html(tmp_path: Path) -> None:
    name = "a\u202eb<&\udc80.py"
    page = to_html(report_of_text(tmp_path, "import petastorm as p  # \u200b</pre>\n", name))
    checked(page)
    page.encode()
    assert r"a\u202eb&lt;&amp;\udc80.py" in page
    assert r"# \u200b&lt;/pre&gt;" in page
