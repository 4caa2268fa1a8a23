"""The dialect of analyses is DuckDB's. Users' files may be in Spark SQL: what DuckDB refuses is translated with sqlglot.

prepare(connection)      sets a connection up: UTC, MACROS, and NULL sorted as the least
tables_in(sql)           the tables that a query reads
in_duckdbs(sql, path)    a user's query as DuckDB runs it
"""

import functools
import re
import threading
from typing import TYPE_CHECKING, Any

from kproxy.analyses.analysis import mistake
from kproxy.protocol.addresses import KAFKA_PORTS

if TYPE_CHECKING:
    import duckdb

DEFAULT_IDS = (  # client ids that libraries give to every program
    "|rdkafka|sarama|kgo|kafkajs|pykafka|kafka-python(-(producer|consumer|admin))?(-[0-9.]+)?"
    "|aiokafka-((producer|consumer|admin)-)?[0-9.]+|(consumer|producer|adminclient)-[0-9]+"
)
MACROS = (
    # the values without NULL, each once, in their order
    "sorted_set(x) AS coalesce(list_sort(list_distinct(list(DISTINCT x))), [])",
    # an exchange to look at; its minimum is the earliest
    "example_of(at_us, connection_id, exchange) AS "
    "struct_pack(at_us := at_us, connection_id := connection_id, exchange := exchange)",
    f"is_kafka_port(port) AS port IN {tuple(sorted(KAFKA_PORTS))}",
    f"is_default_id(client_id) AS regexp_full_match(coalesce(client_id, ''), '{DEFAULT_IDS}')",
)
# In the tree of a query as DuckDB writes it
TABLE = re.compile(r'"type":"BASE_TABLE"[^{}]*?"table_name":"(\w+)"')
DEFINED = re.compile(r'"key":"(\w+)","value":{"aliases"')
CALLED = re.compile(r'"function_name":"(\w+)"')
PARSING = threading.Lock()  # a connection is for one thread at a time
PARAMETER = re.compile(r"\$(?=[a-z])")
PLACE = re.compile(r"^LINE (\d+): ?(.*)\n( *)\^", re.MULTILINE)
QUOTED = re.compile(r"""["']([^"']+)["']|with name (\w+)""")


def prepare(connection: "duckdb.DuckDBPyConnection") -> None:
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro}")


@functools.lru_cache(maxsize=1024)
def tables_in(sql: str) -> tuple[str, ...]:
    """The tables that a query reads, sorted, without those that WITH defines; none if DuckDB cannot parse it."""
    tree = _parsed(sql)
    defined = set(DEFINED.findall(tree))
    return tuple(sorted({name.lower() for name in TABLE.findall(tree) if name not in defined}))


def in_duckdbs(sql: str, path: str) -> str:
    """Return the query as it is if DuckDB knows its syntax and functions, else translated from Spark SQL. Raises ConfigError."""
    if not (message := _refusal(sql)):
        return sql
    translation = _translated(sql)
    if translation is None or (message := _refusal(translation)):
        raise refused(sql, path, message)
    return translation


def _refusal(sql: str) -> str:
    """Why DuckDB would not run this as a query, as far as its syntax and functions say; "" if it would."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        return str(error)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        return "write one SELECT (WITH ... SELECT): nothing else is run"
    unknown = set(CALLED.findall(_parsed(sql))) - _functions()
    return f"There is no function '{min(unknown)}'" if unknown else ""


def refused(sql: str, path: str, message: str) -> Exception:
    """Make a ConfigError of DuckDB's message, with its place in the file where it can be found."""
    text = message.strip()
    line, column = place_of(text, sql)
    return mistake(path, line or 1, column or 1, text.splitlines()[0][:400])


def place_of(message: str, sql: str) -> tuple[int, int]:
    """The line and the column, from 1, that DuckDB's message is about, or zeros: it shows it, or quotes a name that is there."""
    if (place := PLACE.search(message)) is not None:
        return int(place[1]), max(len(place[3]) - len(f"LINE {place[1]}: ") + 1, 1)
    for name in ("".join(found) for found in QUOTED.findall(message.splitlines()[0])):
        for at, line in enumerate(sql.splitlines(), 1):
            if name.lower() in line.lower():
                return at, line.lower().index(name.lower()) + 1
    return 0, 0


def _parsed(sql: str) -> str:
    with PARSING:
        [(tree,)] = _parser().execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    return str(tree)


@functools.cache
def _functions() -> frozenset[str]:
    with PARSING:
        rows = _parser().execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions()").fetchall()
    return frozenset(name for (name,) in rows)


@functools.cache
def _parser() -> "duckdb.DuckDBPyConnection":
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": 1})  # one thread: the process may fork
    prepare(connection)
    return connection


def _translated(sql: str) -> str | None:
    """One SELECT of Spark SQL in DuckDB's; None if it is none."""
    try:
        import sqlglot  # noqa: PLC0415 - heavy, and rarely needed
        from sqlglot import exp  # noqa: PLC0415
    except ImportError:  # DuckDB's message says what it did not understand
        return None
    try:
        (query,) = sqlglot.parse(PARAMETER.sub(":", sql), read="spark")
    except (sqlglot.ParseError, sqlglot.TokenError, ValueError):
        return None
    if not isinstance(query, exp.Query):
        return None
    for call in query.find_all(exp.Anonymous):
        if call.name.lower() == "timestamp_micros":
            call.set("this", "make_timestamptz")
    for kind, rewrite in ((exp.Quantile, _percentile), (exp.ArrayUniqueAgg, _collected), (exp.ArrayAgg, _collected)):
        for node in reversed(list(query.find_all(kind))):  # inner nodes first
            node.replace(rewrite(node))
    return str(query.sql(dialect="duckdb", identify=True))


def _percentile(node: Any) -> Any:
    """Spark's percentile interpolates; DuckDB's quantile does not."""
    from sqlglot import exp  # noqa: PLC0415

    return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])


def _collected(node: Any) -> Any:
    """Without rows, an empty array, not NULL. Window functions stay as they are, since OVER has to follow."""
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(node.parent, exp.Window):
        return node
    return exp.Coalesce(this=node.copy(), expressions=[exp.Array(expressions=[])])
