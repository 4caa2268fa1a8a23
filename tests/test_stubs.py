"""What a .pyi says is what its extension has (mypy's stubtest), and a docstring stands once: in the .pyx."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STUBS = sorted((ROOT / "kproxy").rglob("*.pyi"))

# What stubtest may find: types that only stubs name, and constructors whose parameters Python cannot be asked for. What no
# Python module uses need not be in a .pyi (--ignore-missing-stub).
ALLOWED = re.compile(r"\.(Entry|Owner|Wanting) is not present at runtime|stub does not have \*args parameter")


def module_of(stub: Path) -> str:
    return ".".join(stub.relative_to(ROOT).with_suffix("").parts)


def test_every_stub_says_what_its_extension_has() -> None:
    """Names, parameters, defaults, attributes and properties."""
    words = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "--concise",
        "--ignore-disjoint-bases",
        "--ignore-missing-stub",
        *map(module_of, STUBS),
    ]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert run.returncode in (0, 1) and "Traceback" not in run.stderr, run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if line.startswith("kproxy.") and not ALLOWED.search(line)] == []


def documented(node: ast.Module | ast.ClassDef, thing: Any) -> Iterator[str]:
    """Names of what has a docstring in the stub although it has one in the extension."""
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            found = inspect.getattr_static(thing, child.name, None)
            if ast.get_docstring(child) and found is not None and found.__doc__:
                yield child.name
            if isinstance(child, ast.ClassDef) and found is not None:
                yield from (f"{child.name}.{name}" for name in documented(child, found))


@pytest.mark.parametrize("stub", STUBS, ids=module_of)
def test_docstrings_stand_in_the_extension_alone(stub: Path) -> None:
    assert list(documented(ast.parse(stub.read_text("utf-8")), importlib.import_module(module_of(stub)))) == []
