"""The part that most findings have in common: evidence, grouped into one row for each object, with who, when and where.

A file of SQL whose header has ``frame`` selects only the evidence, one row for each exchange (or batch, error, connection) that
counts. The frame groups these rows:

    frame:
      group_by: [client_id, client_address, cluster, resource AS topic]     # one row for each object
      values: {errors: count(*)}                                            # aggregates over its evidence
      derived: {severity: CASE WHEN errors > 9 THEN 'warning' ELSE 'notice' END}     # computed from group_by and values
      having: errors >= :min_errors
      order_by: errors DESC                                                 # ties go by group_by
      pause: pause_seconds                                                  # a parameter; leave it out for one row in all
    */
    SELECT * FROM client_errors WHERE error_code = 3

Evidence needs the columns of group_by, and ``software``, ``at``, ``at_us``, ``connection_id``, ``exchange``. From these the frame
takes the columns that every finding has: who (client_id, client_address, software), the cluster where group_by has it, when
(first_at, last_at), and the earliest exchange as the example. ``values`` may replace software, first_at, last_at and example.
Evidence that is summed up already (``is_summed``) has first_at, last_at and example in place of the last four.

Without ``group_by`` each row of the SQL is a row of the result: the SQL has all columns, and the frame only puts them in order.

Episodes: without ``pause`` all evidence for an object becomes one row, however far apart. That is right for a setting (acks=0),
and wrong for what happens and ends: two short outages on one day are not one long outage. With ``pause``, evidence that comes
more than so many seconds after the one before belongs to another episode, which has a row of its own. A finding that says for
how long, or counts up to a threshold what harms only when it comes close together, needs a pause.
"""

import re
from collections.abc import Iterator

from kproxy.config.structs import Struct

WHO = ("client_id", "client_address", "software")
WHEN_AND_WHERE = ("first_at", "last_at", "connection_id", "exchange")
KEY = re.compile(r"(?:(?P<expression>.*\S)\s+AS\s+)?(?P<name>[a-z_][a-z0-9_]*)", re.DOTALL | re.IGNORECASE)
OF_EACH = {
    "software": "max(software)",
    "first_at": "min(at)",
    "last_at": "max(at)",
    "example": "min(struct(at_us, connection_id, exchange))",
}
OF_SUMS = {
    "software": "max(software)",
    "first_at": "min(first_at)",
    "last_at": "max(last_at)",
    "example": "min(example)",
}


class Frame(Struct, frozen=True):
    """``frame`` in the header of an analysis; see the docstring of this module."""

    group_by: list[str] = []  # noqa: RUF012 - msgspec copies it
    values: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    derived: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    having: str = ""
    order_by: str = ""
    pause: str = ""
    is_summed: bool = False

    @property
    def keys(self) -> dict[str, str]:
        """Name -> expression over the evidence, for each item of group_by."""
        matches = [KEY.fullmatch(item) for item in self.group_by]
        return {match["name"]: match["expression"] or match["name"] for match in matches if match is not None}

    @property
    def names(self) -> set[str]:
        """The columns that the grouped evidence has."""
        return {*self.keys, *self.values, *self.derived, "software", *WHEN_AND_WHERE}


def columns_of(frame: Frame, columns: dict[str, str]) -> dict[str, str]:
    """The columns of the result with their meanings: those of a header, and around them those that every finding has."""
    known = frame.names | columns.keys()
    severity, cluster = ([name] if name in known else [] for name in ("severity", "cluster"))
    common = {*severity, *WHO, *cluster, *WHEN_AND_WHERE}
    own = [name for name in columns if name not in common]
    return {name: columns.get(name, "") for name in (*severity, *WHO, *own, *cluster, *WHEN_AND_WHERE)}


def mistakes_in(frame: Frame, columns: dict[str, str], parameters: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the place in the header and the message of each mistake."""
    for item in frame.group_by:
        if KEY.fullmatch(item) is None:
            yield "frame.group_by", f"{item[:80]!r} is neither a column nor an expression AS column"
    if not frame.group_by and (frame.values or frame.pause):
        yield "frame.group_by", "values and pause need it"
    for name in columns_of(frame, columns):
        if frame.group_by and name not in frame.names:
            yield "frame", f"the column {name} is in none of group_by, values and derived"
    if frame.pause and frame.pause not in parameters:
        yield "frame.pause", f"there is no parameter {frame.pause[:80]!r}; the pause is a parameter in seconds"
    if frame.pause and frame.is_summed:
        yield "frame.pause", "what is summed up has no pauses any more"


def framed(frame: Frame, columns: dict[str, str], evidence: str) -> str:
    """The SQL that groups the evidence. The evidence keeps its lines, so that places in it are those of the file."""
    of_example = {"connection_id", "exchange"} - set(frame.keys) if frame.group_by else set()
    given = {name: f"example.{name}" for name in of_example}
    computed = given | frame.derived
    order = [*([frame.order_by] if frame.order_by else []), *frame.keys, *(["first_at"] if frame.pause else [])]
    rows = _grouped(frame, evidence) if frame.group_by else f"({evidence.rstrip()}\n) AS evidence"
    return (
        f"SELECT {_listed({name: computed.get(name, name) for name in columns_of(frame, columns)})} FROM {rows}\n"
        + (f"WHERE {frame.having}\n" if frame.having else "")
        + f"ORDER BY {', '.join(order)}"
    )


def _grouped(frame: Frame, evidence: str) -> str:
    values = (OF_SUMS if frame.is_summed else OF_EACH) | frame.values
    columns = frame.keys | {name: value for name, value in values.items() if name not in frame.keys}
    keys = ", ".join(frame.keys.values())
    before, after = _episodes(frame.pause, keys) if frame.pause else ("", "")
    return (
        f"(SELECT {_listed(columns)} FROM {before}({evidence.rstrip()}\n) AS evidence{after}\n"
        f"GROUP BY {keys}{', episode' if frame.pause else ''}) AS found"
    )


def _episodes(pause: str, keys: str) -> tuple[str, str]:
    """Return the SQL before and after the evidence that numbers its episodes."""
    within = f"OVER (PARTITION BY {keys} ORDER BY at_us, connection_id, exchange"
    begins = f"CASE WHEN at_us - lag(at_us) {within}) > :{pause} * 1000000 THEN 1 ELSE 0 END AS begins"
    counted = f"sum(begins) {within} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS episode"
    return f"(SELECT *, {counted} FROM (SELECT *, {begins} FROM ", ") AS marked) AS numbered"


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(name if name == expression else f"{expression} AS {name}" for name, expression in columns.items())
