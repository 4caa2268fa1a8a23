"""One analysis: a file of SQL that begins with a block comment in YAML.

    /*
    id: acks_below_all
    title: Producers that do not wait for all replicas
    severity: warning
    meaning: A broker that fails takes these records with it.
    basis: {rests_on: the field acks of Produce requests, certainty: said, wrong_if: its records may be lost}
    action: Set acks=all.
    reference: https://kafka.apache.org/documentation/#producerconfigs_acks
    parameters:
      min_requests: {default: 10, meaning: Clients with fewer requests are not listed.}
      min_percent: {default: 5, most: 100, meaning: "Clients with a smaller share of such requests are not listed."}
    columns:
      client_id: ""
      requests: with acks below all
    verdict: "{rows:client/clients} with acks below all, {client_id} most: {requests:,} requests"
    */
    SELECT client_id, count(*) AS requests FROM exchanges ... HAVING count(*) >= $min_requests
    ORDER BY requests DESC, client_id

Most findings select only their evidence, and let ``frame`` in the header group it: see Frame. ``bind`` gives parameters values.

A view is such a file with ``meaning``, and ``stored: true`` where it is computed once, in its comment; its name is the file's.
kproxy.analyses.library finds the files.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeGuard

from msgspec import Meta
from msgspec.structs import replace

from kproxy.analyses.report.templates import TemplateError, check_template
from kproxy.config.structs import Struct
from kproxy.errors import ConfigError, Mistake, UsageError, did_you_mean

if TYPE_CHECKING:
    from kproxy.config.convert import Place

Severity: TypeAlias = Literal["info", "notice", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "notice", "warning", "critical")  # in ascending order
Value: TypeAlias = str | int | float | bool | None
LONGEST = 1 << 20  # characters of a file
MOST = 10**12  # of a parameter: times a million it still fits into 64 bits
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
COMMENT = re.compile(r"\A\s*/\*(.*?)\*/", re.DOTALL)
Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
# Meanings of columns that many analyses have; the header of an analysis may give another meaning
MEANINGS = {
    "client_id": "as the client calls itself; empty: it gave none",
    "client_address": "IP address of the client",
    "software": "client library and version, as ApiVersions names it (KIP-511) or inferred",
    "software_version": "version of the library",
    "inferred": "whether the software was worked out, not told",
    "principal": "SASL user, else the subject of the TLS certificate",
    "user_name": "SASL user",
    "sasl_mechanism": "SASL mechanism",
    "broker": "host:port of the broker",
    "topic": "name of the topic; its id where the name was not seen",
    "partition": "number of the partition",
    "group_id": "the group",
    "member_id": "the member id that the coordinator gave",
    "cluster": "id of the cluster, else the first address of its brokers",
    "severity": "how bad this row is",
    "requests": "number of requests",
    "connections": "number of connections",
    "addresses": "number of client addresses",
    "records": "number of records",
    "batches": "number of record batches",
    "bytes": "bytes of the record batches, as on the wire",
    "errors": "number of answers with the error",
    "error_name": "Kafka's name of the error",
    "api_name": "Kafka's name of the API",
    "seconds": "seconds from the first to the last of them",
    "first_at": "time of the first of them (UTC)",
    "last_at": "time of the last of them (UTC)",
    "first_micros": "first seen, in microseconds since 1970",
    "last_micros": "last seen, in microseconds since 1970",
    "connection_id": "connection of the first example, as in the table connections",
    "exchange": "number of that example on its connection, as in the table exchanges",
}
CERTAINTY = {
    "said": "certain, as a client or a broker says so itself",
    "measured": "certain for what was captured",
    "inferred": "likely, but other causes can look the same",
}
WHO = ("client_id", "client_address", "software")
WHEN_AND_WHERE = ("first_at", "last_at", "connection_id", "exchange")
KEY = re.compile(r"(?:(?P<expression>.*\S)\s+AS\s+)?(?P<name>[a-z_][a-z0-9_]*)", re.DOTALL | re.IGNORECASE)
# The aggregates that a frame need not write down: those of all findings, and those of columns with these names
OF_EACH = {
    "software": "max(software)",
    "first_at": "min(seen_at)",
    "last_at": "max(seen_at)",
    "example": "min(example_of(at_us, connection_id, exchange))",
    "errors": "count(*)",
    "error_name": "max(error_name)",
    "api_name": "max(api_name)",
    "requests": "count(*)",
    "batches": "count(*)",
    "largest_bytes": "max(size)",
    "lost": "CAST(sum(lost) AS BIGINT)",
    "addresses": "count(DISTINCT client_address)",
    "connections": "count(DISTINCT connection_id)",
    "seconds": "(max(at_us) - min(at_us)) // 1000000",
}
OF_SUMS = {
    "software": "max(software)",
    "first_at": "min(first_at)",
    "last_at": "max(last_at)",
    "example": "min(example)",
    "connections": "CAST(sum(connections) AS BIGINT)",
    "requests": "CAST(sum(requests) AS BIGINT)",
    "commits": "CAST(sum(commits) AS BIGINT)",
    "batches": "CAST(sum(batches) AS BIGINT)",
    "records": "CAST(sum(records) AS BIGINT)",
    "bytes": "CAST(sum(bytes) AS BIGINT)",
}
ALWAYS = ("software", "first_at", "last_at", "example")
PAUSE = "pause_seconds"
PAUSE_MEANING = "After so long without such an answer, the next one begins another episode, with a row of its own."
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")


class Frame(Struct, frozen=True):
    """``frame`` in the header of an analysis: groups evidence into one row for each object, with who, when and where.

    A file of SQL whose header has ``frame`` selects only the evidence, one row for each exchange (or batch, error,
    connection) that counts. The frame groups these rows:

        frame:
          group_by: [client_id, client_address, cluster, resource AS topic]     # one row for each object
          values: {errors: count(*)}                                            # aggregates over its evidence
          derived: {severity: CASE WHEN errors > 9 THEN 'warning' ELSE 'notice' END}     # computed from group_by and values
          having: errors >= $min_errors
          order_by: errors DESC                                                 # ties go by group_by
          pause: pause_seconds                                                  # a parameter; leave it out for one row in all
        */
        SELECT * FROM client_errors WHERE error_code = 3

    Evidence needs the columns of group_by, and ``software``, ``seen_at``, ``at_us``, ``connection_id``, ``exchange``. From
    these the frame takes the columns that every finding has: who (client_id, client_address, software), the cluster
    where group_by has it, when (first_at, last_at), and the earliest exchange as the example. ``values`` may replace
    software, first_at, last_at and example. Evidence that is summed up already (``is_summed``) has first_at, last_at
    and example in place of the last four.

    Columns of group_by whose meaning is in MEANINGS come before those that ``columns`` in the header lists. A column that
    has its usual aggregate (OF_EACH, OF_SUMS) needs no value, and the parameter pause_seconds no declaration.

    Without ``group_by`` each row of the SQL is a row of the result: the SQL has all columns, and the frame only puts
    them in order.

    Episodes: without ``pause`` all evidence for an object becomes one row, however far apart. That is right for a
    setting (acks=0), and wrong for what happens and ends: two short outages on one day are not one long outage. With
    ``pause``, evidence that comes more than so many seconds after the one before belongs to another episode, which has
    a row of its own. A finding that says for how long, or counts up to a threshold what harms only when it comes close
    together, needs a pause.
    """

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
        return {*self.keys, *self.values, *self.derived, *WHEN_AND_WHERE}


class Parameter(Struct, frozen=True):
    """A value that users may set, such as a threshold; ``$name`` in the SQL, where a whole number is a BIGINT.

    ``least`` and ``most`` limit a number. By default it is between 0 (or a lower default) and MOST, so that a number of seconds
    can be converted to microseconds without overflow.
    """

    default: Any
    meaning: str
    least: int | float | None = None
    most: int | float | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest allowed value of a number."""
        least = min(0, self.default) if self.least is None else self.least
        return least, max(MOST, self.default) if self.most is None else self.most


class Basis(Struct, frozen=True):
    """``basis`` in the header of a finding: why to believe it."""

    rests_on: Annotated[str, Meta(min_length=1)]  # what of the traffic it looks at
    certainty: Literal["said", "measured", "inferred"]
    wrong_if: Annotated[str, Meta(min_length=1)]  # what would show the contrary

    def in_words(self) -> str:
        """What it rests on, how sure it is, and what would show the contrary, as one text."""
        return f"{self.rests_on}; {CERTAINTY[self.certainty]}. It is wrong if {self.wrong_if}."


class Header(Struct, frozen=True):
    """The block comment of an analysis.

    Severities follow the harm that was done. critical: records were lost, or a client does not work at all. warning: somebody
    failed or waited. notice: it costs something, or may do harm one day. info: no harm.
    """

    id: Identifier
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    severity: Severity  # of the verdict, unless its rows have a column "severity"
    meaning: str
    columns: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it; name -> meaning, most important first; "": see MEANINGS
    basis: Basis | None = None  # every built-in finding has one
    action: str = ""
    reference: str = ""
    parameters: dict[str, Parameter] = {}  # noqa: RUF012 - msgspec copies it
    only_if: str = (
        ""  # FROM ... WHERE ... of tables, perhaps with HAVING: if that selects nothing, there are no rows either
    )
    verdict: str = ""  # a template, see kproxy.analyses.report.templates; empty: no line in the summary
    otherwise: str = ""  # the sentence if there are no rows; empty: none
    order: int = 50  # sorts verdicts of the same severity
    sampled: str = ""  # why its rows may be wrong if only a sample of the exchanges was read; empty: they stay right
    default: bool = True  # false: runs only if --only names it
    frame: Frame | None = None  # groups the rows of the SQL; None: they are the result
    gate: Literal["never", "notice", "warning", "critical"] = (
        "never"  # exit code 4 from this severity on, if --only names the analysis
    )


class ViewHeader(Struct, frozen=True):
    """The block comment of a view."""

    meaning: str
    stored: bool = False  # true: computed once; for a view of few rows that many analyses use


class Analysis(Struct, frozen=True):
    """An analysis as the library has it."""

    header: Header
    sql: str  # DuckDB's, the block comment replaced by blank lines: places in it are those of the file
    path: str
    is_finding: bool = False

    @property
    def id(self) -> str:
        """The name for --only."""
        return self.header.id

    @property
    def title(self) -> str:
        """What it is about, as a headline."""
        return self.header.title

    @property
    def severity(self) -> Severity:
        """How bad its rows are."""
        return self.header.severity

    @property
    def parameters(self) -> dict[str, Value]:
        return {name: parameter.default for name, parameter in self.header.parameters.items()}

    @property
    def columns(self) -> dict[str, str]:
        """Column -> its meaning and unit, from the header or from MEANINGS."""
        return {name: meaning or MEANINGS.get(name, "") for name, meaning in self.header.columns.items()}


class View(Struct, frozen=True):
    """A SELECT with a name, which analyses use as a table."""

    name: str
    meaning: str
    sql: str
    path: str
    stored: bool = False


def read_analysis(path: Path, *, is_finding: bool = False) -> Analysis:
    """Read an analysis. Raises ConfigError with file and line of each mistake."""
    header, sql, places = _read(path, Header)
    header = _completed(header)
    mistakes = [Mistake(*places.get(name, (1, 1)), name, message) for name, message in _wrong(header)]
    if mistakes:
        raise ConfigError(mistakes, str(path))
    if header.frame is not None:
        sql = framed(header.frame, header.columns, sql)
        header = replace(header, columns=columns_of(header.frame, header.columns))
    return Analysis(header=header, sql=sql, path=str(path), is_finding=is_finding)


def read_view(path: Path) -> View:
    """Read a view. Raises ConfigError with file and line of each mistake."""
    header, sql, _ = _read(path, ViewHeader)
    return View(name=path.stem, meaning=header.meaning, sql=sql, path=str(path), stored=header.stored)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a whole number or a fraction; True and False are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def mistake(path: str, line: int, column: int, message: str) -> ConfigError:
    """One mistake in a file of SQL."""
    return ConfigError([Mistake(line, column, "", message)], path)


def _read(path: Path, kind: Any) -> tuple[Any, str, dict[str, "Place"]]:
    from kproxy.config.convert import Conversion, read_tree  # noqa: PLC0415 - YAML; the built-in files were read before

    text = _text(path)
    comment = COMMENT.match(text)
    if comment is None:
        raise mistake(
            str(path), 1, 1, "a file of SQL begins with a block comment, /* ... */, that holds id, title, ... as YAML"
        )
    above = "\n" * text.count("\n", 0, comment.start(1))
    conversion = Conversion()
    tree = read_tree(above + comment[1], str(path))
    header = conversion.convert(tree, kind)
    if conversion.mistakes:
        raise ConfigError(conversion.mistakes, str(path))
    sql = "\n" * text.count("\n", 0, comment.end()) + text[comment.end() :]
    if not sql.strip():
        raise mistake(str(path), sql.count("\n") + 1, 1, "there is no SELECT after the block comment")
    return header, sql.rstrip().removesuffix(";"), conversion.places


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except UnicodeDecodeError:
        raise mistake(str(path), 1, 1, "it is not UTF-8 text") from None
    except OSError as error:
        raise mistake(str(path), 1, 1, f"it cannot be read: {error.strerror}") from None
    if len(text) > LONGEST:
        raise mistake(str(path), 1, 1, f"it is longer than {LONGEST:,} characters")
    return text


def _completed(header: Header) -> Header:
    """Add what its frame leaves to the usual: columns of the objects, aggregates, the parameter of the pause."""
    frame = header.frame
    if frame is None or not frame.group_by:
        return header
    objects = {name: "" for name in frame.keys if name in MEANINGS and name not in header.columns}
    columns = objects | header.columns
    usual = {
        name: value
        for name, value in (OF_SUMS if frame.is_summed else OF_EACH).items()
        if name in ALWAYS or (name in columns and name not in (*frame.keys, *frame.derived))
    }
    parameters = header.parameters
    if frame.pause == PAUSE and PAUSE not in parameters:
        parameters = parameters | {PAUSE: Parameter(600, PAUSE_MEANING)}
    return replace(
        header,
        columns=columns,
        parameters=parameters,
        frame=replace(frame, values=usual | frame.values),
    )


def _wrong(header: Header) -> Iterator[tuple[str, str]]:
    """Check what the types of a header cannot express; yield the place and the message of each mistake."""
    for name, parameter in header.parameters.items():
        if parameter.default is not None and not isinstance(parameter.default, str | int | float | bool):
            yield f"parameters.{name}.default", "it has to be a text, a number, true, false or null"
        elif is_number(parameter.default) and not parameter.range[0] <= parameter.default <= parameter.range[1]:
            yield f"parameters.{name}.default", "it has to be between least and most"
        if not NAME.fullmatch(name):
            yield f"parameters.{name}", "a name has small letters, digits and _, as $max_rows in the SQL"
    if header.frame is not None:
        yield from mistakes_in(header.frame, header.columns, set(header.parameters))
    try:
        check_template(header.verdict)
    except TemplateError as error:
        yield "verdict", str(error)


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
    columns = frame.values | frame.keys
    keys = ", ".join(frame.keys.values())
    before, after = _episodes(frame.pause, keys) if frame.pause else ("", "")
    return (
        f"(SELECT {_listed(columns)} FROM {before}({evidence.rstrip()}\n) AS evidence{after}\n"
        f"GROUP BY {keys}{', episode' if frame.pause else ''}) AS found"
    )


def _episodes(pause: str, keys: str) -> tuple[str, str]:
    """Return the SQL before and after the evidence that numbers its episodes."""
    within = f"OVER (PARTITION BY {keys} ORDER BY at_us, connection_id, exchange"
    begins = f"CASE WHEN at_us - lag(at_us) {within}) > ${pause} * 1000000 THEN 1 ELSE 0 END AS begins"
    counted = f"sum(begins) {within} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS episode"
    return f"(SELECT *, {counted} FROM (SELECT *, {begins} FROM ", ") AS marked) AS numbered"


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(name if name == expression else f"{expression} AS {name}" for name, expression in columns.items())


def bind(analysis: Analysis, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return a value for every parameter of the analysis, given or default. Raises UsageError."""
    defaults = analysis.parameters
    for name in given:
        if name not in defaults:
            raise UsageError(f"{analysis.id} has no parameter {name[:80]!r}; {_hint(name, defaults)}")
    values = {name: _convert(name, given.get(name, default), default) for name, default in defaults.items()}
    for name, parameter in analysis.header.parameters.items():
        _check_range(name, values[name], parameter)
    return values


def known_to(analysis: Analysis, given: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in given.items() if name in analysis.parameters}


def _hint(name: str, known: Mapping[str, Value]) -> str:
    if not known:
        return "it has none"
    return did_you_mean(name, known)


def _check_range(name: str, value: Value, parameter: Parameter) -> None:
    """Raise UsageError for a number that is out of range, or NaN."""
    if is_number(value) and is_number(parameter.default):
        least, most = parameter.range
        if not least <= value <= most:
            raise UsageError(f"the parameter {name} is from {least:,} to {most:,}, not {str(value)[:40]}")


def _convert(name: str, value: Value, default: Value) -> Value:
    """A text as a value of the default's type. Raises UsageError."""
    if not isinstance(value, str) or default is None or isinstance(default, str):
        return value
    try:
        if isinstance(default, bool):
            if value.lower() not in TRUE + FALSE:
                raise ValueError("neither true nor false")
            return value.lower() in TRUE
        return int(value) if isinstance(default, int) else float(value)
    except ValueError:
        kind = (
            "true or false"
            if isinstance(default, bool)
            else "a whole number"
            if isinstance(default, int)
            else "a number"
        )
        raise UsageError(f"the parameter {name} is {kind}, not {value[:80]!r}") from None
