"""One analysis: a file of Spark SQL that begins with a block comment in YAML.

    /*
    id: acks_below_all
    title: Producers that do not wait for all replicas
    severity: warning
    meaning: A broker that fails takes these records with it.
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
    SELECT client_id, count(*) AS requests FROM exchanges ... HAVING count(*) >= :min_requests
    ORDER BY requests DESC, client_id

Most findings select only their evidence, and let ``frame`` in the header group it: see kproxy.analyses.frame.

A view is such a file with ``meaning``, and ``stored: true`` where it is computed once, in its comment; its name is the file's.
kproxy.analyses.library finds the files.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard

from msgspec import Meta
from msgspec.structs import replace

from kproxy.analyses.columns import MEANINGS
from kproxy.analyses.frame import Frame, columns_of, framed, mistakes_in
from kproxy.analyses.report.templates import TemplateError, check_template
from kproxy.config.convert import Conversion, Place, read_tree
from kproxy.config.structs import Struct
from kproxy.errors import ConfigError, Mistake

Severity: TypeAlias = Literal["info", "notice", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "notice", "warning", "critical")  # in ascending order
Value: TypeAlias = str | int | float | bool | None
LONGEST = 1 << 20  # characters of a file
MOST = 10**12  # of a parameter: times a million it still fits into 64 bits
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
COMMENT = re.compile(r"\A\s*/\*(.*?)\*/", re.DOTALL)
Identifier = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class Parameter(Struct, frozen=True):
    """A value that users may set, such as a threshold; ``:name`` in the SQL, where a whole number is a BIGINT.

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


class Header(Struct, frozen=True):
    """The block comment of an analysis."""

    id: Identifier
    title: Annotated[str, Meta(min_length=1, max_length=120)]
    severity: Severity  # of the verdict, unless its rows have a column "severity"
    meaning: str
    columns: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it; name -> meaning, most important first; "": see columns.py
    action: str = ""
    reference: str = ""
    parameters: dict[str, Parameter] = {}  # noqa: RUF012 - msgspec copies it
    needs: list[str] = []  # noqa: RUF012 - as above; tables and views, for people who read the file; nothing uses it
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
    sql: str  # Spark SQL, the block comment replaced by blank lines: places in it are those of the file
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
        """Parameter -> default."""
        return {name: parameter.default for name, parameter in self.header.parameters.items()}

    @property
    def columns(self) -> dict[str, str]:
        """Column -> its meaning and unit, from the header or from columns.py."""
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


def _read(path: Path, kind: Any) -> tuple[Any, str, dict[str, Place]]:
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


def _wrong(header: Header) -> Iterator[tuple[str, str]]:
    """Check what the types of a header cannot express; yield the place and the message of each mistake."""
    for name, parameter in header.parameters.items():
        if parameter.default is not None and not isinstance(parameter.default, str | int | float | bool):
            yield f"parameters.{name}.default", "it has to be a text, a number, true, false or null"
        elif is_number(parameter.default) and not parameter.range[0] <= parameter.default <= parameter.range[1]:
            yield f"parameters.{name}.default", "it has to be between least and most"
        if not NAME.fullmatch(name):
            yield f"parameters.{name}", "a name has small letters, digits and _, as :max_rows in the SQL"
    if header.frame is not None:
        yield from mistakes_in(header.frame, header.columns, set(header.parameters))
    try:
        check_template(header.verdict)
    except TemplateError as error:
        yield "verdict", str(error)
