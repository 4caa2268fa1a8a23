"""The browser's modules: all that is loaded is here, and lit-html is the bytes of its npm package, with its licence.

There is no build step: a module is kept as its package ships it. Why so few: rows of one height and a scaled scroll bar take
150 lines (windowed.js), while TanStack's virtual core has no scroll bar for more pixels than a browser can have. lit-html was
preferred to Preact as it is one file that is used unchanged, and sets values as text. uPlot draws on a canvas, which neither
styles nor screen readers reach, and has no heat map.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

STATIC = Path(str(files("kproxy.page") / "static"))
ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r'^\} from "(.*?)";$|^import .*? from "(.*?)";$|^import "(.*?)";$', re.MULTILINE)
LIT = "lit-html@3.3.3"
FROM_LIT = {  # file in static/ -> file of the package, SHA-256
    "lit-html.js": ("lit-html.js", "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2"),
    "lit-html.LICENSE.txt": ("LICENSE", "2b66f9390afde29edfe4314daff93f01fb182e1178053e228120178987e5db75"),
}
OURS = [path for path in STATIC.glob("*.js") if path.name not in FROM_LIT]


def fetched(package: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Files of an npm package, NAME@VERSION, fetched by npm itself, which checks the package's own checksum."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", package]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            members = {path: opened.extractfile(f"package/{path}") for path in paths}
            return {path: member.read() for path, member in members.items() if member is not None}


def test_lit_html_is_what_npm_has(require: Callable[[str, object, str], None]) -> None:
    ours = {name: (STATIC / name).read_bytes() for name in FROM_LIT}
    assert {name: hashlib.sha256(ours[name]).hexdigest() for name in ours} == {n: f[1] for n, f in FROM_LIT.items()}
    assert b"BSD 3-Clause License" in ours["lit-html.LICENSE.txt"] and "lit-html" in (ROOT / "NOTICE").read_text()
    require("npm", shutil.which("npm"), "no npm")
    theirs = fetched(LIT, [path for path, _ in FROM_LIT.values()])
    assert {name: theirs[path] for name, (path, _) in FROM_LIT.items()} == ours


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
