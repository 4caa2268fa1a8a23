"""Who may import whom. lint-imports keeps the same laws on .py files; this also reads .pyx and .pxd, which it cannot."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kproxy"

# What each room may import of the others:
# errors <- protocol <- session <- filters | capture | output <- config <- proxy <- cli.
MAY_IMPORT = {
    "errors": set[str](),
    "protocol": {"errors"},
    "session": {"errors", "protocol"},
    "capture": {"errors", "protocol", "session"},
    "output": {"errors", "protocol", "session"},
    "filters": {"errors", "protocol", "session"},
    "pipeline": {"errors", "protocol", "session", "filters", "capture", "output"},
    "config": {"errors", "protocol", "filters"},
    "login": {"errors", "protocol", "output"},
    "proxy": {"errors", "protocol", "session", "filters", "capture", "output", "pipeline", "config"},
    "analyses": {"errors", "protocol", "session", "filters", "capture", "output", "pipeline", "config"},
    "cli": {
        "errors",
        "protocol",
        "session",
        "filters",
        "capture",
        "output",
        "pipeline",
        "config",
        "login",
        "proxy",
        "analyses",
        "spark",
        "doctor",
        "manual",
        "page",
        "replay",
    },
    "manual": {"errors", "protocol", "output", "analyses"},
    "doctor": {"errors", "protocol", "filters", "output", "config", "login", "proxy"},
    "replay": {"errors", "protocol", "session", "output", "pipeline", "config", "login", "proxy"},
    "testing": {"errors", "protocol", "filters", "config", "proxy"},
    "spark": {"errors", "protocol", "session", "filters", "capture", "output", "pipeline", "config", "analyses"},
    "page": {
        "errors",
        "protocol",
        "session",
        "filters",
        "capture",
        "output",
        "pipeline",
        "config",
        "proxy",
        "analyses",
        "manual",
    },
    "extract": {"errors", "protocol"},
}
WAITS_OR_ASKS_THE_TIME = {"asyncio", "selectors", "select", "socket", "socketserver", "ssl", "time", "uvloop"}
MAY_WAIT = {"proxy", "cli", "spark", "testing", "doctor", "page", "replay"}
READS_CERTIFICATES = ("config", "ssl")  # the one module of these that it may import: it opens no connection
INPUT_OUTPUT = {"http", "os", "pathlib", "shutil", "subprocess", "tempfile", "threading", "urllib"}
ONLY_IN = {"pyspark": {"spark"}, "duckdb": {"analyses", "page"}, "sqlglot": {"analyses"}}
NO_INPUT_OUTPUT = {"protocol", "session", "filters"}

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
    if top == "kproxy":
        other = rest.partition(".")[0]
        return other in MAY_IMPORT and other != room and other not in MAY_IMPORT[room]
    if top in WAITS_OR_ASKS_THE_TIME:
        return room not in MAY_WAIT and (room, top) != READS_CERTIFICATES
    if top in ONLY_IN:
        return room not in ONLY_IN[top]
    return top in INPUT_OUTPUT and room in NO_INPUT_OUTPUT


@pytest.mark.parametrize("package", sorted({room_of(source) for source in SOURCES} - {"__init__", "__main__"}))
def test_imports_go_one_way(package: str) -> None:
    assert package in MAY_IMPORT, f"{package} has no law: add it to MAY_IMPORT"
    sources = [source for source in SOURCES if room_of(source) == package]
    imports = [(source.relative_to(ROOT).as_posix(), name) for source in sources for name in imported(source)]
    assert [(source, name) for source, name in imports if forbidden(package, name)] == []


@pytest.mark.parametrize(
    ("room", "name", "breaks"),
    [
        ("protocol", "kproxy.session.events", True),
        ("session", "kproxy.protocol", False),
        ("capture", "kproxy.output.text.lines", True),
        ("cli", "kproxy.capture", False),
        ("cli", "kproxy.extract.jars", True),
        ("output", "time", True),
        ("filters", "asyncio", True),
        ("filters", "kproxy.config.structs", True),
        ("cli", "time", False),
        ("session", "asyncio.tasks", True),
        ("protocol", "pathlib.Path", True),
        ("capture", "pathlib.Path", False),
        ("filters", "asyncio", True),
        ("filters", "kproxy.config", True),
        ("config", "ssl", False),
        ("config", "socket", True),
        ("proxy", "asyncio", False),
        ("config", "kproxy.proxy.supervisor.process", True),
    ],
)
def test_the_law_knows_right_from_wrong(room: str, name: str, breaks: bool) -> None:
    assert forbidden(room, name) is breaks


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
