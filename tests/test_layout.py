"""How the tree is laid out: what stands at the top, nothing unfinished, every module introduced, every extension built."""

import ast
import importlib.util
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kproxy"
TOP_LEVEL = {"pyproject.toml", "kproxy", "tests", "captures", "dashboards", "deploy", "README.md", "LICENSE", "NOTICE"}
MADE_BY_TOOLS = re.compile(r"build|dist|__pycache__|.*\.egg-info")  # the visible names that .gitignore leaves out
SHARED = PACKAGE / f"_shared{EXTENSION_SUFFIXES[0]}"  # what Cython puts there of all extensions; it has no source
NAMED_FILE = re.compile(r"(?<![\w.*/])[a-z_][a-z_0-9/]*\.pyx?\b")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")

SOURCES = sorted(path for pattern in ("*.py", "*.pyx", "*.pxd") for path in PACKAGE.rglob(pattern))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_only_agreed_entries_stand_at_the_top() -> None:
    visible = {entry.name for entry in ROOT.iterdir() if not entry.name.startswith(".")}
    assert {name for name in visible if not MADE_BY_TOOLS.fullmatch(name)} <= TOP_LEVEL


def is_introduced(source: Path) -> bool:
    lines = source.read_text(encoding="utf-8").splitlines()
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return first.startswith(('"""', 'r"""', "'''")) or source.suffix == ".pxd"


def test_modules_are_finished_and_introduced() -> None:
    assert [shown(source) for source in SOURCES if UNFINISHED.search(source.read_text(encoding="utf-8"))] == []
    assert [shown(source) for source in SOURCES if not is_introduced(source)] == []


def docstrings(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".py":
        return "\n".join(ast.get_docstring(n) or "" for n in ast.walk(ast.parse(text)) if isinstance(n, DOCUMENTED))
    return "\n".join(re.findall(r'"""(.*?)"""', text, re.DOTALL)) if source.suffix in (".pyx", ".pxd") else text


def test_every_module_that_docstrings_and_readme_name_exists() -> None:
    folders = (PACKAGE, ROOT / "tests", ROOT / "captures", ROOT / "deploy")
    files = ["/" + shown(path) for folder in folders for suffix in ("*.py", "*.pyx") for path in folder.rglob(suffix)]
    named = {(shown(at), name) for at in (*SOURCES, ROOT / "README.md") for name in NAMED_FILE.findall(docstrings(at))}
    assert len(named) > 100
    assert [one for one in sorted(named) if not any(path.endswith("/" + one[1]) for path in files)] == []


@pytest.mark.parametrize("extension", sorted(PACKAGE.rglob("*.pyx")), ids=shown)
def test_every_extension_is_typed_and_built(extension: Path) -> None:
    assert extension.with_suffix(".pyi").is_file()
    name = ".".join(extension.relative_to(ROOT).with_suffix("").parts)
    spec = importlib.util.find_spec(name)
    assert spec and spec.origin and spec.origin.endswith(tuple(EXTENSION_SUFFIXES)), f"{shown(extension)} is not built"


def test_no_extension_is_left_of_a_module_that_is_gone() -> None:
    """It would be imported instead of a .py of the same name; installing with -e removes it."""
    suffixes = tuple(EXTENSION_SUFFIXES)
    built = {path for path in PACKAGE.rglob("*.so") if path.name.endswith(suffixes)} - {SHARED}
    assert [shown(path) for path in built if not path.with_name(path.name.split(".")[0] + ".pyx").is_file()] == []
