"""A checkout in which nothing was built, for tests that build what is released."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASED = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", ".build", "kproxy", "deploy")
BUILT = shutil.ignore_patterns("*.so", "__pycache__", "c")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with what a release is made of."""
    tree = tmp_path / "source"
    tree.mkdir()
    for name in RELEASED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, tree / name)
    return tree
