"""The columns of exchanges: those of the decoded log under its names, and some that are taken from bodies.

``sql`` reads from ``e``, the table exchanges of kproxy.output.tables with the columns that kproxy.page adds (ADDED). The same
text serves rows that were decoded here and rows of Parquet files.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from kproxy.output.tables.contracts import EXCHANGES
from kproxy.protocol.vocabulary import VOCABULARY, Scope, fields_in

Type: TypeAlias = Literal["integer", "number", "text", "truth", "texts", "time"]
CONTRACT = {column.name: column for column in EXCHANGES.columns}
ADDED = {  # columns of the page that the contract does not have, with their types in SQL
    **{"number": "BIGINT", "connection": "BIGINT", "client": "VARCHAR"},
    **{"request_ns": "BIGINT", "response_ns": "BIGINT"},
    **{"principal": "VARCHAR", "mechanism": "VARCHAR", "software": "VARCHAR", "software_version": "VARCHAR"},
}


class Column(Struct, frozen=True):
    name: str
    type: Type
    sql: str
    meaning: str
    unit: str = ""
    shown: bool = False  # by default
    in_log: bool = True  # whether the decoded log has it under this name


def _of(name: str, column: str, kind: Type, *, shown: bool = False, in_log: bool = True) -> Column:
    """Make a column of one in the tables' contract."""
    known = CONTRACT[column]
    return Column(name, kind, f"e.{column}", known.meaning, known.unit, shown, in_log)


def _of_login(name: str, column: str) -> Column:
    """Make a column about the client of the connection."""
    return Column(name, "text", f"e.{column}", VOCABULARY[name].meaning, in_log=False)


COLUMNS = {
    column.name: column
    for column in (
        Column("number", "integer", "e.number", "which exchange of the source, from 1", shown=True, in_log=False),
        Column("requestAt", "time", "e.request_ns", "first byte of the request", shown=True),
        Column("responseAt", "time", "e.response_ns", "last byte of the response"),
        Column("connection", "integer", "e.connection", "number of the connection"),
        Column("client", "text", "e.client", "address and port of the client", shown=True),
        Column("broker", "text", "e.broker", "address and port of the broker", shown=True),
        _of("clientId", "client_id", "text", shown=True),
        _of_login("principal", "principal"),
        _of_login("mechanism", "mechanism"),
        _of_login("software", "software"),
        _of_login("softwareVersion", "software_version"),
        _of("apiKey", "api_key", "integer"),
        _of("apiName", "api_name", "text", shown=True),
        _of("apiVersion", "api_version", "integer", shown=True),
        _of("correlationId", "correlation_id", "integer"),
        _of("latencyMs", "latency_ms", "number", shown=True),
        _of("requestInProxyMs", "request_in_proxy_ms", "number"),
        _of("brokerMs", "broker_ms", "number"),
        _of("responseInProxyMs", "response_in_proxy_ms", "number"),
        _of("requestSize", "request_size", "integer", shown=True),
        _of("responseSize", "response_size", "integer", shown=True),
        Column("errorName", "text", "e.error_name", "name of the first error code", shown=True, in_log=False),
        Column("errorCodes", "texts", "e.error_codes", "its error codes that are not 0", in_log=False),
        _of("topics", "topics", "texts", shown=True, in_log=False),
        _of("partitions", "partitions", "integer", in_log=False),
        _of("groups", "groups", "texts", in_log=False),
        _of("transactionalId", "transactional_id", "text", in_log=False),
        _of("memberId", "member_id", "text", in_log=False),
        _of("generationId", "generation_id", "integer", in_log=False),
        _of("records", "records", "integer", in_log=False),
        _of("recordBytes", "record_bytes", "integer", in_log=False),
        _of("acks", "acks", "integer", in_log=False),
        _of("throttleTimeMs", "throttle_time_ms", "integer", in_log=False),
        _of("expectsResponse", "expects_response", "truth"),
        _of("unanswered", "unanswered", "text"),
        _of("undecoded", "undecoded", "text"),
        _of("layout", "layout", "text"),
        _of("assumedVersion", "assumed_version", "integer"),
        _of("bodies", "bodies", "text"),
        _of("edited", "edited", "texts"),
        _of("requestTrailingBytes", "request_trailing_bytes", "integer", in_log=False),
        _of("responseTrailingBytes", "response_trailing_bytes", "integer", in_log=False),
    )
}
IN_FILTERS = frozenset(COLUMNS.keys() & fields_in(Scope.LOG).keys())  # columns that a filter can use
NOT_IN_LINES = frozenset(
    name for name in IN_FILTERS if not COLUMNS[name].in_log
)  # the columns in filters that the decoded log lacks
SHOWN = tuple(name for name, column in COLUMNS.items() if column.shown)
