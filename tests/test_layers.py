"""Who may import whom: the contracts of pyproject.toml, here also for .pyx and .pxd, which lint-imports cannot read."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kproxy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
(LAYERS,) = ([line.split(" | ") for line in each["layers"]] for each in CONTRACTS if each["type"] == "layers")
LAYER_OF = {name.removeprefix("kproxy."): at for at, names in enumerate(LAYERS) for name in names}
ONLY_IN = {"pyspark": {"spark"}, "duckdb": {"analyses", "page"}, "sqlglot": {"analyses"}}

CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+\(?([\w ,]*)|c?import\s+([\w.]+))", re.MULTILINE)
SOURCES = sorted(path for pattern in ("*.py", "*.pyi", "*.pyx", "*.pxd") for path in PACKAGE.rglob(pattern))


def imported(path: Path) -> Iterator[str]:
    """Dotted names that the file imports; `from kproxy import capture` gives "kproxy.capture"."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".pyx", ".pxd"):
        for origin, names, whole in CYTHON_IMPORT.findall(text):
            yield from (f"{origin}.{name.split()[0]}" for name in names.split(",") if name.strip())
            yield origin or whole
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(path.suffix)


def forbidden(room: str, name: str) -> bool:
    top, _, rest = name.partition(".")
    if top == "kproxy" and room in LAYER_OF:
        other = rest.partition(".")[0]
        if other in LAYER_OF and other != room and LAYER_OF[other] <= LAYER_OF[room]:
            return True
    rules = [each for each in CONTRACTS if f"kproxy.{room}" in each.get("source_modules", ())]
    modules = [module for rule in rules for module in rule["forbidden_modules"]]
    if any(name == module or name.startswith(f"{module}.") for module in modules):
        return True
    return top in ONLY_IN and room not in ONLY_IN[top]


@pytest.mark.parametrize("package", sorted({room_of(source) for source in SOURCES} - {"__init__", "__main__"}))
def test_imports_go_one_way(package: str) -> None:
    assert package in LAYER_OF or package == "extract", f"{package} is in no layer of pyproject.toml"
    sources = [source for source in SOURCES if room_of(source) == package]
    imports = [(source.relative_to(ROOT).as_posix(), name) for source in sources for name in imported(source)]
    assert [(source, name) for source, name in imports if forbidden(package, name)] == []


def test_the_law_knows_right_from_wrong() -> None:
    wrong = {
        "protocol": ("kproxy.session.events", "pathlib.Path", "time"),
        "capture": ("kproxy.output.text.lines",),
        "cli": ("kproxy.extract.jars", "pyspark.sql"),
        "session": ("asyncio.tasks",),
        "filters": ("asyncio", "kproxy.config.structs", "kproxy.config"),
        "config": ("socket", "kproxy.proxy.supervisor.process"),
    }
    right = {
        "session": "kproxy.protocol",
        "capture": "pathlib.Path",
        "config": "ssl",
        "proxy": "asyncio",
        "cli": "time",
    }
    assert [(room, name) for room, names in wrong.items() for name in names if not forbidden(room, name)] == []
    assert [(room, name) for room, name in right.items() if forbidden(room, name)] == []


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("from kproxy.protocol cimport wire", ["kproxy.protocol.wire", "kproxy.protocol"]),
        ("cimport kproxy.session.framing", ["kproxy.session.framing"]),
        ("    import time", ["time"]),
        ("from libc.stdint cimport int32_t, int64_t", ["libc.stdint.int32_t", "libc.stdint.int64_t", "libc.stdint"]),
    ],
)
def test_cython_imports_are_seen(tmp_path: Path, line: str, names: list[str]) -> None:
    source = tmp_path / "module.pyx"
    source.write_text(line + "\n", encoding="utf-8")
    assert list(imported(source)) == names
