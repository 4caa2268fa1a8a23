"""Translate Spark SQL to DuckDB's with sqlglot, and make up for what sqlglot leaves different.

For the same rows on both engines, write SQL by these rules:

* ``ORDER BY`` names enough columns that no two rows tie. NULL is the least, as in Spark.
* Whole numbers are summed, not doubles, whose sum depends on the order: microseconds rather than milliseconds.
* A double in a result is rounded: ``round(x, 3)``. ``a / b`` is a double; ``a DIV b`` is a whole number. Write ``nullif(b, 0)``.
* ``percentile(x, 0.95)`` interpolates on both; not percentile_approx, whose algorithms differ.
* ``sort_array(collect_set(x))``: a set has no order.
* Times as numbers: ``unix_micros(at)``, ``timestamp_micros(n)``.
* Arrays of a table: ``LATERAL VIEW explode(topics) AS topic``, without OUTER, which DuckDB would lose.

Translations are kept between runs in a file in the user's cache, since translating all analyses takes half a second. The name of
the file has the version of sqlglot and a hash of the translating code, the key of an entry is a hash of its SQL: no entry is ever
stale. If the file cannot be written, everything is translated in each run.
"""

import contextlib
import functools
import os
import tempfile
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

# Functions that DuckDB lacks or that behave differently there, as macros; ``create_macros`` of kproxy.analyses.duck
MACROS = (
    # Spark rounds the decimal text of a double half up; DuckDB multiplies first, so that 2.675 becomes 2.67
    "CREATE OR REPLACE MACRO spark_round(x, digits) AS "
    "coalesce(TRY_CAST(round(TRY_CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 12)), digits) AS DOUBLE), round(x, digits))",
    "CREATE OR REPLACE MACRO timestamp_micros(n) AS make_timestamptz(CAST(n AS BIGINT))",
    "CREATE OR REPLACE MACRO timestamp_millis(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000)",
    "CREATE OR REPLACE MACRO timestamp_seconds(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000000)",
)
MOST = 2_000  # entries


class Translation(msgspec.Struct, frozen=True):
    """A query as DuckDB runs it, and the tables that it uses."""

    tables: list[str]
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


def tables_in(sql: str, path: str = "") -> tuple[str, ...]:
    """The names of the tables that a query reads, sorted, without those that WITH defines. Raises ConfigError."""
    return tuple(_translate(sql, path).tables)


def to_duckdb(sql: str, path: str = "") -> str:
    """The query as DuckDB runs it, with ``$name`` for parameters. Raises ConfigError."""
    return _translate(sql, path).duckdb


def save_translations() -> None:
    """Keep for the next run what was translated in this one."""
    _cache().save()


@functools.cache
def _cache() -> Cache:
    return users_cache(Path(__file__).with_name("rewriting.py"))


@functools.lru_cache(maxsize=1024)
def _translate(sql: str, path: str) -> Translation:
    found = _cache().get(sql)
    if found is None:
        from kproxy.analyses.rewriting import translated  # noqa: PLC0415 - brings sqlglot

        found = translated(sql, path)
        _cache().put(sql, found)
    return found


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
