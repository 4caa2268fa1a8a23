"""Translate Spark SQL to DuckDB's with sqlglot, and make up for what sqlglot leaves different.

For the same rows on both engines, write SQL by these rules:

* ``ORDER BY`` names enough columns that no two rows tie. NULL is the least, as in Spark.
* Whole numbers are summed, not doubles, whose sum depends on the order: microseconds rather than milliseconds.
* A double in a result is rounded: ``round(x, 3)``. ``a / b`` is a double; ``a DIV b`` is a whole number. Write ``nullif(b, 0)``.
* ``percentile(x, 0.95)`` interpolates on both; not percentile_approx, whose algorithms differ.
* ``sort_array(collect_set(x))``: a set has no order.
* Times as numbers: ``unix_micros(at)``, ``timestamp_micros(n)``.
* Arrays of a table: ``LATERAL VIEW explode(topics) AS topic``, without OUTER, which DuckDB would lose.
"""

import functools
from pathlib import Path

from kproxy.analyses.translation_cache import Cache, Translation, users_cache

# Functions that DuckDB lacks or that behave differently there, as macros; ``create_macros`` of kproxy.analyses.duck
MACROS = (
    # Spark rounds the decimal text of a double half up; DuckDB multiplies first, so that 2.675 becomes 2.67
    "CREATE OR REPLACE MACRO spark_round(x, digits) AS "
    "coalesce(TRY_CAST(round(TRY_CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 12)), digits) AS DOUBLE), round(x, digits))",
    "CREATE OR REPLACE MACRO timestamp_micros(n) AS make_timestamptz(CAST(n AS BIGINT))",
    "CREATE OR REPLACE MACRO timestamp_millis(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000)",
    "CREATE OR REPLACE MACRO timestamp_seconds(n) AS make_timestamptz(CAST(n AS BIGINT) * 1000000)",
)


def tables_in(sql: str, path: str = "") -> tuple[str, ...]:
    """The names of the tables that a query reads, sorted, without those that WITH defines. Raises ConfigError."""
    return tuple(_translate(sql, path).tables)


def to_duckdb(sql: str, path: str = "") -> str:
    """The query as DuckDB runs it, with ``$name`` for parameters. Raises ConfigError."""
    return _translate(sql, path).duckdb


def parameters_in(sql: str, path: str = "") -> frozenset[str]:
    """The names of the parameters that a query uses. Raises ConfigError."""
    return frozenset(_translate(sql, path).parameters)


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
