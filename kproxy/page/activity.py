"""Exchanges over time: counts, bytes and errors by API, client, topic or error; latency as a heat map; the groups. By DuckDB."""

from typing import Any

from kproxy.errors import UsageError
from kproxy.page.store import Store
from kproxy.page.work import Work
from kproxy.protocol.error_codes import error_name

MOST_BUCKETS = 1_000
MOST_SERIES = 12  # the others are added up
OTHERS = "others"
AT = "coalesce(e.request_ns, e.response_ns)"
BY = {  # subject of the series -> the columns needed, and SQL that gives one row for each subject
    "api": (["apiName", "apiKey"], "coalesce(e.api_name, 'API ' || e.api_key, '?')"),
    "client": (["clientId"], "coalesce(e.client_id, '')"),
    "topic": (["topics"], "unnest(e.topics)"),
    "error": (["errorCodes"], "unnest(e.error_codes)"),
}
LATENCIES_US = [base * 10**power for power in range(1, 8) for base in (1, 2, 5)]  # 10 µs to 50 s
LEVELS = [*LATENCIES_US, 10**12]  # upper bounds; the last one holds all that is longer


class Span:
    """A span of time in equal buckets, in nanoseconds. Raises UsageError for too many of them."""

    def __init__(self, store: Store, buckets: int, start: int | None, end: int | None) -> None:
        if not 1 <= buckets <= MOST_BUCKETS:
            raise UsageError(f"buckets is a number from 1 to {MOST_BUCKETS:,}")
        first, last = store.times() if start is None or end is None else (start, end)
        low, high = first if start is None else start, last if end is None else end
        self.is_empty = low is None or high is None or high < low
        self.start, self.end = low or 0, high or 0
        self.buckets = buckets
        self.width = max((self.end - self.start) // buckets + 1, 1)

    @property
    def starts(self) -> list[str]:
        """The time at which each bucket begins, in nanoseconds."""
        return [] if self.is_empty else [str(self.start + at * self.width) for at in range(self.buckets)]

    @property
    def condition(self) -> str:
        """SQL that is true for rows within the span."""
        return f"{AT} BETWEEN {self.start} AND {self.end}"

    @property
    def bucket(self) -> str:
        """The number of a row's bucket, from 0."""
        return f"({AT} - {self.start}) // {self.width}"


MOST_GROUPS = 200


def groups(store: Store, work: Work, start: int | None, end: int | None) -> dict[str, Any]:
    """Return the groups that requests of a span name, the most used first, whether or not anything has changed in a group.

    The answer of /page/api/groups. Raises UsageError, Cancelled.
    """
    span = Span(store, 1, start, end)
    source = store.rows(["groups", "apiName", "clientId", "generationId", "requestAt", "responseAt"])
    # KIP-848, KIP-932 and KIP-1071 have no JoinGroup: a member joins by a heartbeat with epoch 0
    joins = "e.api_name = 'JoinGroup' OR (e.api_name LIKE '%GroupHeartbeat' AND e.generation_id = 0)"
    query = (
        "SELECT name, count(*), count(DISTINCT client_id), min(ns)::VARCHAR, max(ns)::VARCHAR,"
        " coalesce(bool_or(joins), false), count(*) OVER ()"
        f" FROM (SELECT unnest(e.groups) AS name, e.client_id, {AT} AS ns, {joins} AS joins FROM {source}"
        f" WHERE len(e.groups) > 0 AND {span.condition}) GROUP BY name ORDER BY count(*) DESC, name LIMIT {MOST_GROUPS}"
    )
    with store.cursor() as cursor, work.ended_by(cursor.interrupt):
        rows = [] if span.is_empty else cursor.execute(query).fetchall()
    names = ("name", "exchanges", "clients", "firstNs", "lastNs", "joined")
    listed = [dict(zip(names, row, strict=False)) for row in rows]
    return {"groups": listed, "more": rows[0][-1] - len(rows) if rows else 0}


def activity(
    store: Store, work: Work, condition: str, by: str, buckets: int, start: int | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return the answer of /page/api/activity. Raises UsageError, FilterError, Cancelled."""
    if by not in BY:
        raise UsageError(f"by is one of {', '.join(BY)}")
    span = Span(store, buckets, start, end)
    if span.is_empty:
        return {"startsNs": [], "series": []} | _missing(store, span, start, end)
    columns, key = BY[by]
    source = store.rows(["requestAt", "responseAt", "number", "requestSize", "responseSize", "errorCodes", *columns])
    chosen = store.selected(work, condition)
    with store.cursor() as cursor, work.ended_by(cursor.interrupt):
        only = store.register(cursor, chosen)
        counted = cursor.execute(
            f"SELECT key, bucket, count(*), sum(size)::BIGINT, count(*) FILTER (failed)"
            f" FROM (SELECT {key} AS key, {span.bucket} AS bucket,"
            " coalesce(e.request_size, 0) + coalesce(e.response_size, 0) AS size, len(e.error_codes) > 0 AS failed"
            f" FROM {source} WHERE {span.condition}{only}) GROUP BY ALL"
        ).fetchall()
    series = _series(counted, span.buckets, by)
    return {"startsNs": span.starts, "series": series} | _missing(store, span, start, end)


def _series(counted: list[Any], buckets: int, by: str) -> list[dict[str, Any]]:
    """Return a series for each of the keys with the most exchanges, and one for all others together."""
    totals: dict[Any, int] = {}
    for key, _, count, _, _ in counted:
        totals[key] = totals.get(key, 0) + count
    named = sorted(totals, key=lambda key: (-totals[key], str(key)))
    if len(named) > MOST_SERIES + 1:
        named = named[:MOST_SERIES]
    places = {key: at for at, key in enumerate(named)}
    texts = [error_name(key) if by == "error" else str(key) for key in named]
    texts += [OTHERS] if len(totals) > len(named) else []
    made = [{"name": text, **{what: [0] * buckets for what in ("exchanges", "bytes", "errors")}} for text in texts]
    for key, bucket, count, size, failed in counted:
        series: Any = made[places.get(key, len(named))]
        for what, number in (("exchanges", count), ("bytes", size), ("errors", failed)):
            series[what][bucket] += number
    return made


def heatmap(
    store: Store, work: Work, condition: str, buckets: int, start: int | None = None, end: int | None = None
) -> dict[str, Any]:
    """Return the answer of /page/api/heatmap: ``counts[bucket][level]``. Raises as ``activity``."""
    span = Span(store, buckets, start, end)
    if span.is_empty:
        return {"startsNs": [], "latencyUs": LEVELS, "counts": []} | _missing(store, span, start, end)
    bounds = ", ".join(f"{bound}.0" for bound in LATENCIES_US)
    chosen = store.selected(work, condition)
    source = store.rows(["requestAt", "responseAt", "number", "latencyMs"])
    with store.cursor() as cursor, work.ended_by(cursor.interrupt):
        only = store.register(cursor, chosen)
        counted = cursor.execute(
            f"SELECT {span.bucket} AS bucket, len(list_filter([{bounds}], lambda bound : bound < e.latency_ms * 1000)) AS level,"
            f" count(*) FROM {source} WHERE {span.condition} AND e.latency_ms IS NOT NULL{only} GROUP BY ALL"
        ).fetchall()
    counts = [[0] * len(LEVELS) for _ in range(span.buckets)]
    for bucket, level, count in counted:
        counts[bucket][level] = count
    return {"startsNs": span.starts, "latencyUs": LEVELS, "counts": counts} | _missing(store, span, start, end)


def _missing(store: Store, span: Span, start: int | None, end: int | None) -> dict[str, Any]:
    """Return what the counts lack: for the whole span, and the number of exchanges by bucket."""
    by_bucket = [] if span.is_empty else store.left_out.by_bucket(span.start, span.width, span.buckets)
    return {"leftOut": store.gaps(start, end), "leftOutBy": by_bucket}
