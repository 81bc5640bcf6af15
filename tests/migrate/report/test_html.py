"""The HTML report."""

import json
import re
import shutil
import subprocess
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.migrate.checks import each, write_files
from tests.migrate.report.test_data import MIXED, report_of, report_of_text

from mdstorm_migrate.report.html import to_html
from mdstorm_migrate.report.page import page, prose, rule_page, tag, text
from mdstorm_migrate.rules import all_rules

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

HOSTILE = "import petastorm.spark  # </script><script>document.title = 'owned'</script>\n"
VOID = {"col", "input", "meta"}


class Checker(HTMLParser):
    """A parser that fails if an element on the page is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def checked(html: str) -> Checker:
    found = Checker(html)
    assert not found.open
    return found


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    (tmp_path / "broken.py").write_text("import petastorm\nprint 'x'\n")
    (tmp_path / "hostile.py").write_text(HOSTILE)
    return to_html(report_of_text(tmp_path, MIXED, '<img src=x onerror="f()">&.py'))


def test_html_report_is_well_formed_and_self_contained(mixed: str) -> None:
    found = checked(mixed)
    assert len(found.all("script")) == 1
    for _, attributes in found.seen:
        assert not {"src", "style", "onclick", "onerror"} & set(attributes)
        assert attributes.get("href", "#") == "#" or str(attributes.get("href")).startswith("#PM")
    assert "http:" not in mixed
    assert "https:" not in mixed
    policy = found.all("meta")[1]["content"] or ""
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_html_items_have_finding_class_and_rule(mixed: str) -> None:
    items = [one for one in checked(mixed).all("li") if one.get("class") == "item"]
    said = ", ".join(f"{one['data-class']} {one['data-rule']}" for one in items)
    assert said == "exact PM101, review PM103, manual PM107, note PM109, problem , exact PM101"


def test_html_checklist_lists_manual_findings_and_errors(mixed: str) -> None:
    found = checked(mixed)
    todo = [one["data-text"] or "" for one in found.all("li") if "data-text" in one]
    assert [one.partition(":")[0] for one in todo] == ["PM107", "error"]
    values = [one["value"] for one in found.all("input") if "name" not in one and "value" in one]
    assert len(set(values)) == 2


def test_html_checklist_groups_equal_findings_by_folder(tmp_path: Path) -> None:
    text = "from petastorm.reader import Ventilator\n"
    write_files(tmp_path, dict.fromkeys(("a/x.py", "a/y.py", "b/z.py"), text))
    html = to_html(report_of(tmp_path))
    found = checked(html)
    groups = [one["data-text"] for one in found.all("li") if one.get("class") == "group"]
    assert groups == [
        "PM107: `petastorm.reader.Ventilator` is in neither mdstorm nor Petastorm 0.13.1; "
        "perhaps from an older version or a fork: replace this use"
    ]
    places = [one["data-place"] for one in found.all("li") if "data-place" in one]
    assert places == [f"{tmp_path}/{name}:1:30" for name in ("a/x.py", "a/y.py", "b/z.py")]
    folders = f"{tmp_path}/a/&nbsp;<b>2</b>, {tmp_path}/b/&nbsp;<b>1</b>"
    assert f"3 places in 3 files: {folders}</summary>" in html
    assert "To do by hand (3)" in html


def test_backticks_become_html_code_elements(mixed: str) -> None:
    assert "<code>petastorm.unischema._fullmatch</code> is private" in mixed
    code = r'<style>.*</style>|<script>.*</script>|<pre.*?</pre>|="[^"]*"'
    assert "`" not in re.sub(code, "", mixed, flags=re.DOTALL)
    assert prose("`a<b` and ``") == "<code>a&lt;b</code> and ``"


def test_rule_page_becomes_html_paragraphs_lists_and_blocks() -> None:
    shown = rule_page(
        "# PM1 x\n\nClass: `note`.\n\nTwo\nlines.\n\n- a\n  b\n- c\n\n"
        "```python before\nx < 1\n```\n"
    )
    assert shown == (
        "<p>Class: <code>note</code>.</p><p>Two lines.</p><ul><li>a b</li><li>c</li></ul>"
        '<p class="quiet">before</p><pre>x &lt; 1\n</pre>'
    )
    for rule in all_rules():
        assert "```" not in re.sub("<pre>[^<]*", "", rule_page(rule.explain()))


def test_html_diff_of_notebook_shows_cells(tmp_path: Path) -> None:
    used = ["import petastorm\n", "y = 'é'\n", "petastorm.reader.Ventilator"]
    sources = (["x = 1\n"], used, ["z"])
    cells = [{"cell_type": "code", "source": source, "outputs": []} for source in sources]
    text = json.dumps({"cells": cells, "metadata": {}}, indent=1)
    html = to_html(report_of_text(tmp_path, text, "a.ipynb"))
    assert re.findall("<h3>(.*?)</h3>", html) == ["Cell 2"]
    (diff,) = re.findall('<pre class="diff">.*?</pre>', html, re.DOTALL)
    assert "&quot;" not in diff
    assert "\\n" not in diff
    assert "y = &#x27;é&#x27;" in diff


def test_html_controls_have_labels_and_tables_have_headers(mixed: str) -> None:
    found = checked(mixed)
    for control in found.all("progress") + [
        one for one in found.all("input") if one["type"] == "search"
    ]:
        assert control["aria-label"]
    assert mixed.count('<input type="checkbox"') == mixed.count("<label")
    assert all(head["scope"] == "col" for head in found.all("th"))


def test_html_report_for_many_files_is_collapsed(tmp_path: Path) -> None:
    for number in range(21):
        (tmp_path / f"m{number:02}.py").write_text("import petastorm as p\n")
    html = to_html(report_of(tmp_path))
    files = [one for one in checked(html).all("details") if one["class"] == "file"]
    assert len(files) == 21
    assert not any("open" in one for one in files)
    (tmp_path / "m00.py").unlink()
    files = checked(to_html(report_of(tmp_path))).all("details")
    assert sum("open" in one for one in files) == 20


@each(8, 9)
def test_html_finding_with_many_locations_is_collapsed(places: int, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("from petastorm.reader import Ventilator\n" * places)
    found = checked(to_html(report_of(tmp_path))).all("details")
    assert [("open" in one) for one in found if one.get("class") == "places"] == [places == 8]


def test_html_report_without_files_states_that_no_file_uses_petastorm(tmp_path: Path) -> None:
    html = to_html(report_of(tmp_path))
    checked(html)
    assert "No scanned file uses Petastorm" in html


def test_invisible_characters_are_escaped_in_html() -> None:
    assert text("a\u202eb\x00<\ud800") == r"a\u202eb\u0000&lt;\ud800"
    assert (
        tag("a", "", href='"x"', hidden=True, title=None) == '<a href="&quot;x&quot;" hidden></a>'
    )
    page("x", "\ud800".encode("utf-8", "backslashreplace").decode())


DRIVER = """
<script>
const box = (value) => document.querySelector(`#filters input[value="${value}"]`);
const shown = () => document.getElementById("shown").textContent;
const items = "details.file:not([hidden]) .item:not([hidden])";
const visible = () => [...document.querySelectorAll(items)]
  .map((item) => item.dataset.rule || "error").join();
const found = [document.title, shown()];
const change = (act) => {
  act();
  document.getElementById("filters").dispatchEvent(new Event("input"));
  found.push(visible());
};
change(() => { box("exact").checked = false; });
change(() => { box("PM107").checked = false; });
change(() => { box("problem").checked = false; box("exact").checked = true; });
change(() => { document.getElementById("search").value = "HOSTILE"; });
document.getElementById("collapse").click();
found.push(document.querySelectorAll("details.file[open]:not([hidden])").length);
document.querySelector(".todo input").click();
found.push(document.getElementById("done-text").textContent);
found.push(JSON.parse(localStorage.getItem("mdstorm-migrate-checklist")).length);
const listed = () => document.querySelectorAll(".places li:not([hidden])").length;
const look = (wanted) => {
  document.getElementById("todo-search").value = wanted;
  document.getElementById("todo-search").dispatchEvent(new Event("input"));
  found.push(listed());
};
look("_fullmatch"); look("broken"); look("nothing like this"); look("");
document.body.innerHTML = `<pre>${found.join("|")}</pre>`;
</script>
"""


def dom(path: Path, html: str, *more: str) -> str:
    path.write_text(html)
    # Use a new profile for each run, because Chromium keeps its profile locked while it closes.
    profile = tempfile.mkdtemp(dir=path.parent)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    done = subprocess.run(
        [str(CHROMIUM), *options, *more, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_html_report_script_runs_under_content_security_policy(tmp_path: Path, mixed: str) -> None:
    found = dom(tmp_path / "r.html", mixed)
    assert '<html lang="en" class="js">' in found
    assert "3 of 3 files, 6 places" in found
    assert "0 of 2 done" in found
    # the policy blocks every script except the report's own
    assert "<pre>Migration" not in dom(tmp_path / "r.html", mixed.replace("</body>", DRIVER))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_filter_and_checklist_work_in_html_report_opened_from_file_url(
    tmp_path: Path, mixed: str
) -> None:
    html = mixed.replace("script-src", "script-src 'unsafe-inline'; x").replace("</body>", DRIVER)
    found = dom(tmp_path / "r.html", html).partition("<pre>")[2].partition("</pre>")[0].split("|")
    assert found == [
        "Migration to mdstorm",
        "3 of 3 files, 6 places",
        "PM103,PM107,PM109,error",
        "PM103,PM109,error",
        "PM101,PM103,PM109,PM101",
        "PM101",
        "0",
        "1 of 2 done",
        "1",
        *"1102",
    ]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@each(600, 1280)
def test_unchanged_line_in_html_diff_is_shown_once_on_narrow_and_twice_on_wide_screen(
    width: int, tmp_path: Path
) -> None:
    text = "x = 1\nimport petastorm.spark as s\ny = 2\n"
    seen = """<script>
const cells = [...document.querySelectorAll(".diff tbody td:not(.number)")];
const shown = cells.filter((cell) => cell.checkVisibility()).map((cell) => cell.textContent);
document.body.innerHTML = `<pre>${shown.join("|")}</pre>`;
</script></body>"""
    html = to_html(report_of_text(tmp_path, text))
    html = html.replace("script-src", "script-src 'unsafe-inline'; x").replace("</body>", seen)
    found = dom(tmp_path / "r.html", html, f"--window-size={width},900")
    lines = found.partition("<pre>")[2].partition("</pre>")[0].split("|")
    old, new = "\u2212import petastorm.spark as s", "+import mdstorm.spark as s"
    kept = 1 if width == 600 else 2
    assert lines == ["x = 1"] * kept + [old, new] + ["y = 2"] * kept
