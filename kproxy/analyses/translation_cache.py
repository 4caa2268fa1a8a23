"""Translations kept between runs in a file in the user's cache: translating all analyses takes half a second.

The name of the file has the version of sqlglot and a hash of the translating code, the key of an entry is a hash of its SQL: no
entry is ever stale. If the file cannot be written, everything is translated in each run.
"""

import contextlib
import os
import tempfile
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

MOST = 2_000  # entries


class Translation(msgspec.Struct, frozen=True):
    """A query as DuckDB runs it, and the tables and parameters that it uses."""

    tables: list[str]
    parameters: list[str]
    duckdb: str


class Cache:
    """Translations by SQL. ``save`` writes the new ones."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Translation] = {}
        self._is_new = False
        if path is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, Translation])

    def get(self, sql: str) -> Translation | None:
        """The translation of that SQL, if it is known."""
        return self._known.get(_key(sql))

    def put(self, sql: str, translation: Translation) -> None:
        """Remember a translation."""
        self._known[_key(sql)] = translation
        self._is_new = True

    def save(self) -> None:
        """Write new translations. Errors are ignored: the next run then translates again."""
        if not self._is_new or self._path is None or len(self._known) > MOST:
            return
        self._is_new = False
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(msgspec.json.encode(self._known))
            Path(file.name).replace(self._path)


def users_cache(translator: Path) -> Cache:
    """The user's cache for translations that the code in *translator* makes."""
    try:
        made_by = f"{version('sqlglot')} {translator.read_bytes().hex()}"
    except (PackageNotFoundError, OSError):
        return Cache(None)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - of no user: "~" stays
    return (
        Cache(Path(home, "kproxy", f"analyses-{_key(made_by)[:16]}.json")) if Path(home).is_absolute() else Cache(None)
    )


def _key(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
