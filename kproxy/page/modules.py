"""Other people's modules in static/, and the check that they are the same bytes as npm's.

    python -m kproxy.page.modules --check

There is no build step: a module is kept as its package ships it, with its licence. Why so few: rows of one height and a scaled
scroll bar take 150 lines (static/windowed.js), while TanStack's virtual core has no scroll bar for more pixels than a browser
can have. lit-html was preferred to Preact as it is one file that is used unchanged, and sets values as text. uPlot draws on a
canvas, which neither styles nor screen readers reach, and has no heat map.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "static"
PATIENCE = 120  # seconds for npm


class Vendored(NamedTuple):
    """A file of an npm package."""

    package: str
    version: str
    licence: str  # SPDX identifier
    path: str  # in the package
    name: str  # in static/
    sha256: str


MODULES = (
    Vendored(
        "lit-html",
        "3.3.3",
        "BSD-3-Clause",
        "lit-html.js",
        "lit-html.js",
        "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2",
    ),
    Vendored(
        "lit-html",
        "3.3.3",
        "BSD-3-Clause",
        "LICENSE",
        "lit-html.LICENSE.txt",
        "2b66f9390afde29edfe4314daff93f01fb182e1178053e228120178987e5db75",
    ),
)


def fetched(package: str, version: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return files of an npm package, fetched by npm itself, which checks the package's own checksum.

    Raises OSError where npm is missing or fails, KeyError for a file that the package lacks.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{package}@{version}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise OSError(f"npm pack {package}@{version}: {done.stderr.strip()[-300:] or 'failed'}")
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            return {path: _content(opened, f"package/{path}") for path in paths}


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member.read()


def differences(modules: Sequence[Vendored] = MODULES, folder: Path = STATIC) -> list[str]:
    """Return a sentence for each file whose checksum differs from MODULES; without the network."""
    return [
        f"{one.name} is not {one.path} of {one.package} {one.version}"
        for one in modules
        if hashlib.sha256((folder / one.name).read_bytes()).hexdigest() != one.sha256
    ]


def differences_to_npm(modules: Sequence[Vendored] = MODULES, folder: Path = STATIC) -> list[str]:
    """Return a sentence for each file that differs from npm's. Raises as ``fetched``."""
    sentences = []
    for one in modules:
        (content,) = fetched(one.package, one.version, [one.path]).values()
        if content != (folder / one.name).read_bytes():
            sentences.append(f"{one.name} is not what npm has as {one.path} of {one.package} {one.version}")
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all files are npm's, 1 if one is not."""
    parser = argparse.ArgumentParser(prog="python -m kproxy.page.modules", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", required=True, help="compare with what npm has")
    parser.parse_args(arguments)
    try:
        wrong = differences() + differences_to_npm()
    except OSError as error:
        wrong = [str(error)]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
