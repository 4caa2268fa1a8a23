"""Parse Spark SQL and write it as DuckDB's, with sqlglot. Imported only for SQL that is not in the cache."""

from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from kproxy.analyses.analysis import mistake
from kproxy.analyses.translate import Translation


def parse(sql: str, path: str = "") -> exp.Query:
    """Parse one SELECT of Spark SQL. Raises ConfigError with its line and column in the file."""
    try:
        found = sqlglot.parse(sql, read="spark")
    except ParseError as error:
        first: dict[str, Any] = error.errors[0] if error.errors else {}
        words = f"{first.get('description', 'it is no SQL')}, near {str(first.get('highlight', ''))[:40]!r}"
        raise mistake(path, first.get("line") or 1, first.get("col") or 1, words) from None
    except TokenError as error:
        raise mistake(path, 1, 1, f"it is no SQL: {str(error).splitlines()[0][:200]}") from None
    statements = [statement for statement in found if statement is not None]
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise mistake(path, 1, 1, "write one SELECT (WITH ... SELECT): nothing else is run")
    return statements[0]


def tables_in_duckdb(query: str) -> set[str]:
    """The tables that a query in DuckDB's SQL may read; none if sqlglot cannot parse it."""
    try:
        statements = sqlglot.parse(query, read="duckdb")
    except (ParseError, TokenError):
        return set()
    return {
        table.name.lower()
        for statement in statements
        if statement is not None
        for table in statement.find_all(exp.Table)
    }


def translated(sql: str, path: str = "") -> Translation:
    """The translation of one SELECT. Raises ConfigError."""
    query = parse(sql, path)
    defined = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    used = {table.name.lower() for table in query.find_all(exp.Table) if table.name}
    for node in reversed(list(query.find_all(*_REWRITTEN))):  # inner nodes first
        node.replace(_REWRITTEN[type(node)](node))
    text = query.sql(dialect="duckdb", identify=True)  # "at" and "offset" are keywords of DuckDB
    return Translation(sorted(used - defined), text)


def _round(node: exp.Expression) -> exp.Expression:
    return exp.Anonymous(
        this="spark_round", expressions=[node.this, node.args.get("decimals") or exp.Literal.number(0)]
    )


def _percentile(node: exp.Expression) -> exp.Expression:
    """Spark's percentile interpolates; DuckDB's quantile does not."""
    return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])


def _collect(node: exp.Expression) -> exp.Expression:
    """Without rows, return an empty array, not NULL. Window functions stay as they are, since OVER has to follow."""
    if isinstance(node.parent, exp.Window):
        return node
    return exp.Coalesce(this=node.copy(), expressions=[exp.Array(expressions=[])])


_REWRITTEN: dict[type[exp.Expression], Callable[[exp.Expression], exp.Expression]] = {
    exp.Round: _round,
    exp.Quantile: _percentile,
    exp.ArrayUniqueAgg: _collect,
    exp.ArrayAgg: _collect,
}
