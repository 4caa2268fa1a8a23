"""Files that appear in a folder all at once, as if long ago."""

import os
import time
from pathlib import Path

from tests.support.corpus import CAPTURES

OLD = time.time() - 1_000


def put(folder: Path, name: str, capture: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_bytes((CAPTURES / capture).read_bytes())
    (folder / f".{name}").rename(folder / name)
    os.utime(folder / name, (OLD, OLD))
