"""The browser's modules are the bytes of the packages that they are from, with their licences, and all that is loaded is here."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from kproxy.page.modules import MODULES, STATIC, differences, differences_to_npm, main

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r'^\} from "(.*?)";$|^import .*? from "(.*?)";$|^import "(.*?)";$', re.MULTILINE)
OURS = [path for path in STATIC.glob("*.js") if path.name not in {one.name for one in MODULES}]


def test_they_are_what_is_written_of_them() -> None:
    assert differences() == []
    assert {one.licence for one in MODULES} == {"BSD-3-Clause"}
    assert "BSD 3-Clause License" in (STATIC / "lit-html.LICENSE.txt").read_text()
    notice = (ROOT / "NOTICE").read_text()
    assert all(one.package in notice for one in MODULES)


def test_they_are_what_npm_has(require: Callable[[str, object, str], None]) -> None:
    require("npm", shutil.which("npm"), "no npm")
    assert main(["--check"]) == 0


def test_a_changed_file_is_named(tmp_path: Path, require: Callable[[str, object, str], None]) -> None:
    for one in MODULES:
        (tmp_path / one.name).write_bytes((STATIC / one.name).read_bytes())
    with (tmp_path / "lit-html.js").open("ab") as file:
        file.write(b" ")
    assert differences(folder=tmp_path) == ["lit-html.js is not lit-html.js of lit-html 3.3.3"]
    require("npm", shutil.which("npm"), "no npm")
    found = differences_to_npm(MODULES[:1], tmp_path)
    assert found == ["lit-html.js is not what npm has as lit-html.js of lit-html 3.3.3"]


def test_every_import_is_of_a_file_that_is_here() -> None:
    named = {
        (path.name, next(filter(None, found))) for path in OURS for found in IMPORT.findall(path.read_text("utf-8"))
    }
    assert len(named) > 30
    assert [one for one in sorted(named) if not (STATIC / one[1]).is_file()] == []


def test_nothing_sets_text_as_html_or_a_style_in_markup() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|unsafeHTML|\beval\(|new Function|\sstyle="
    )
    assert [path.name for path in OURS if forbidden.search(path.read_text("utf-8"))] == []
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|https?:", page)
