"""The .pyi that .build/stubs.py writes say what the extensions have (mypy's stubtest)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUBS = sorted((ROOT / "kproxy").rglob("*.pyi"))

# What stubtest may report: constructors whose parameters Python cannot be asked for, or that only their module calls; the names
# of operands; that a class is final. What no Python module uses need not be in a .pyi (--ignore-missing-stub).
ALLOWED = re.compile(
    r"stub does not have \*args parameter|\.Refused\.__init__ |\.__eq__ .* positional-only|marked with @final"
)


def module_of(stub: Path) -> str:
    return ".".join(stub.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.long
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
