"""``kproxy sql``: queries over the tables of captures, decoded logs and Parquet directories."""

import csv
import glob
import io
import itertools
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.endings import DAMAGED, DONE, INTERRUPTED
from kproxy.cli.options import KEYLOG, SEPARATE, pop_schemas, schema_options, source_path
from kproxy.cli.reading import SourceReader
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.text.styles import PLAIN, style_for
from kproxy.pipeline.run import Options
from kproxy.pipeline.sink import Sink

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 1_000  # of a table
EXAMPLES = "examples.sql"  # in kproxy.analyses
WIDEST_CELL = 80
LEAST_MEANING = 30  # characters a line, on a narrow terminal
CRLF = "\r\n"
COMMENT = re.compile(r"--[^\s=]*\s")


class Format(StrEnum):
    """The forms of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class _Command(click.Command):
    """Takes a query that begins with a comment for what it is, although options begin with two hyphens, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if COMMENT.match(word) else word for word in args])


@click.command(cls=_Command)
@click.argument("arguments", metavar="SOURCE... [QUERY]", nargs=-1)
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    default=Format.TABLE.value,
    show_default=True,
    help="table for people (at most 1,000 rows), csv, or json: an array with an object a row.",
)
@click.option("--records", is_flag=True, help="Fill the table records, too.")
@click.option(
    "--view",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Add a view of this topic: a column for each field of its values.",
)
@click.option("--analyses", "folders", metavar="DIR", multiple=True, type=Path, help="Add the views of this folder.")
@schema_options
@SEPARATE
@KEYLOG
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar.")
@click.option("--examples", is_flag=True, help="Print questions with their queries, and end.")
def sql(
    arguments: tuple[str, ...],
    format_name: str,
    records: bool,
    topics: tuple[str, ...],
    folders: tuple[Path, ...],
    separate: bool,
    keylog: Path | None,
    quiet: bool,
    examples: bool,
    **others: Any,
) -> int:
    """Query Kafka traffic with SQL.

    SOURCE is a capture, a decoded log, or a directory of tables, as for kproxy report. QUERY is DuckDB's SQL over the
    tables (connections, exchanges, record_batches, offsets, group_events, topic_activity, errors, partition_states,
    share_deliveries, records), the facts (api_versions, releases, error_codes) and the views of the analyses. Without
    QUERY there is a prompt with completion; where standard input is no terminal, the query is read from it.

    \b
    kproxy sql trace.pcapng "SELECT topic, records FROM topic_activity LIMIT 9"
    kproxy sql trace.pcapng
    kproxy sql trace.pcapng "DESCRIBE exchanges"
    kproxy sql --view orders trace.pcapng "FROM orders WHERE country = 'DE'"
    kproxy sql --examples
    kproxy sql tables/ "FROM offsets LIMIT 5" --format csv > offsets.csv

    A query reads the tables and nothing else: no other files, no network.

    \b
    Exit status:
      0  done
      2  wrong usage: a source that cannot be read, a mistake in the query
      3  a source is damaged: everything before the damage is in the tables
    130  interrupted; the query ran over what was read until then
    """
    if examples:
        print(files("kproxy.analyses").joinpath(EXAMPLES).read_text(encoding="utf-8"), end="")
        return DONE
    from kproxy.analyses.duck import Database, check_available  # noqa: PLC0415 - only this command and report

    check_available(extra="sql")
    from kproxy.analyses.loading import identify_source  # noqa: PLC0415
    from kproxy.analyses.queries import Queries, check_query  # noqa: PLC0415 - needs what was just looked for
    from kproxy.analyses.topic_view import make_topic_view  # noqa: PLC0415

    sources, query = _split(arguments)
    if query is None:
        # A source that does not exist may be a mistyped query: say so before standard input is read
        for source in sources:
            identify_source(source)
    if query is None and not sys.stdin.isatty() and Path("-") not in sources:
        query = sys.stdin.read()
    if query is None:
        check_available(extra="sql", more=("prompt_toolkit", "pygments"))
    wanted = None if query is None else _wanted(check_query(query), folders)
    if records or topics:
        wanted = _all_tables() if wanted is None else wanted | {"records", *(("exchanges",) if topics else ())}
    with_records = wanted is not None and "records" in wanted
    schemas = pop_schemas(others, records=with_records)
    reader = SourceReader(sources, bar=not quiet, separate=separate)
    with Database(
        sources,
        folders=folders,
        wanted=wanted,
        options=Options(keylog=keylog, records=with_records, schemas=schemas),
        watch=reader.read,
        reading=reader.state,
    ) as database:
        if reader.interrupted:
            print(f"kproxy: the tables have only {reader.part}", file=sys.stderr)
        for topic in topics:
            make_topic_view(database.connection, topic, database.viewers)
        queries = Queries(database)
        write = {Format.TABLE: _write_table, Format.CSV: _write_csv, Format.JSON: _write_json}[Format(format_name)]

        def show(query: str) -> None:
            with Sink(None, live=False) as sink:
                write(queries.run(query), sink)

        if query is not None:
            show(query)
        else:
            from kproxy.analyses.prompt import run_prompt  # noqa: PLC0415 - an extra

            run_prompt(
                queries.columns(),
                queries.functions(),
                show,
                lambda text: print(printable_lines(text), file=sys.stderr),
            )
        for damage in [*database.notes, *database.damages]:
            print(f"kproxy: {printable(damage, 400)}", file=sys.stderr)
        return INTERRUPTED if reader.interrupted else DAMAGED if database.damages else DONE


def _split(arguments: tuple[str, ...]) -> tuple[list[Path], str | None]:
    """Split the arguments into sources and the query, which comes last."""
    if not arguments:
        raise UsageError('name a capture, a decoded log or a directory of tables: kproxy sql trace.pcapng "SELECT 1"')
    queries = [argument for argument in arguments if _is_query(argument)]
    if len(arguments) > 1 and queries == [arguments[-1]]:
        return [source_path(one) for one in arguments[:-1]], arguments[-1]
    if queries:
        raise UsageError(f'sources come first, then one query: kproxy sql trace.pcapng "{queries[-1]}"')
    return [source_path(one) for one in arguments], None


def _is_query(argument: str) -> bool:
    """Whether it has several words and names no file: a query may be longer than any file name."""
    has_words = ";" in argument or len(argument.split()) > 1
    return has_words and not (os.path.exists(argument) or glob.glob(argument))  # noqa: PTH110, PTH207


def _wanted(names: set[str], folders: tuple[Path, ...]) -> set[str]:
    """The tables that a query needs, directly or through views; all of them if it names none (SHOW TABLES, a mistake)."""
    from kproxy.analyses import library  # noqa: PLC0415 - needs DuckDB
    from kproxy.output.tables import TABLES  # noqa: PLC0415

    views = library.load_views(folders)
    needed = {table for name in names & views.keys() for table in library.tables_needed(views[name], views)}
    return (names & TABLES.keys()) | needed or _all_tables() - {"records"}


def _all_tables() -> set[str]:
    from kproxy.output.tables import TABLES  # noqa: PLC0415 - needs pyarrow

    return set(TABLES)


def printable_lines(text: str) -> str:
    """Escape control characters in lines of text."""
    return "\n".join(printable(line, 500) for line in text.splitlines())


# Rows


def _write_table(reader: "pyarrow.RecordBatchReader", sink: Sink) -> None:
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    from kproxy.analyses.queries import rows_of  # noqa: PLC0415
    from kproxy.analyses.report.text import row_lines  # noqa: PLC0415

    rows = rows_of(reader)
    if reader.schema.names == ["explain_key", "explain_value"]:  # a drawing
        for row in rows:
            sink.write(f"{printable_lines(row['explain_value'])}\n".encode())
        return
    table = pa.Table.from_pylist(list(itertools.islice(rows, MOST_ROWS)), reader.schema)
    on_terminal = sys.stdout.isatty()
    style = style_for(sys.stdout, dict(os.environ)) if on_terminal else PLAIN
    width = shutil.get_terminal_size((100, 24)).columns if on_terminal else 10_000
    if reader.schema.names[-1:] == ["meaning"]:
        lines = _with_meanings(table, width)
    else:
        lines = row_lines(table, style=style, width=width, most=MOST_ROWS, widest=WIDEST_CELL)
    for line in lines:
        sink.write(f"{line}\n".encode())
    more = sum(1 for _ in rows)
    if more:
        sink.write(f"... {more:,} more rows: --format csv has all\n".encode())


def _with_meanings(table: "pyarrow.Table", width: int) -> Iterator[str]:
    """Yield a table whose last column is prose: wrapped, never cut."""
    rows = [table.column_names, *([str(value) for value in row.values()] for row in table.to_pylist())]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    margin = sum(widths) + 2 * len(widths)
    for *others, meaning in rows:
        head = "".join(f"{printable(text, 200):<{size}}  " for text, size in zip(others, widths, strict=True))
        first, *more = textwrap.wrap(printable(meaning, 2_000), max(width - margin, LEAST_MEANING)) or [""]
        yield f"{head}{first}".rstrip()
        yield from (" " * margin + line for line in more)


def _write_csv(reader: "pyarrow.RecordBatchReader", sink: Sink) -> None:
    from kproxy.analyses.queries import rows_of  # noqa: PLC0415
    from kproxy.analyses.report.pages import plain  # noqa: PLC0415

    is_terminal = sys.stdout.isatty()  # where control characters are escaped
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator=CRLF)  # with this, csv also quotes fields with a CR, as it must

    def write(values: Iterable[Any]) -> None:
        writer.writerow(values)
        sink.write(f"{buffer.getvalue().removesuffix(CRLF)}\n".encode("utf-8", "backslashreplace"))
        buffer.seek(0)
        buffer.truncate()

    write(reader.schema.names)
    for row in rows_of(reader):
        texts = (_text(plain(value)) for value in row.values())
        write(printable(one, len(one)) if is_terminal and isinstance(one, str) else one for one in texts)


def _write_json(reader: "pyarrow.RecordBatchReader", sink: Sink) -> None:
    import msgspec  # noqa: PLC0415

    from kproxy.analyses.queries import rows_of  # noqa: PLC0415
    from kproxy.analyses.report.pages import plain  # noqa: PLC0415

    before = b"[\n"
    for row in rows_of(reader):
        values = {name: plain(value) for name, value in row.items()}
        sink.write(before + msgspec.json.encode(values, enc_hook=str))
        before = b",\n"
    sink.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _text(value: Any) -> Any:
    """A value as a CSV field: bytes as hexadecimal, lists and structs as JSON, all else unchanged."""
    import msgspec  # noqa: PLC0415

    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return msgspec.json.encode(value, enc_hook=str).decode() if isinstance(value, list | dict) else value
