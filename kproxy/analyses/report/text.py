"""A report for a terminal: the verdicts, or the rows of the analyses that --only names."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kproxy.analyses.analysis import is_number
from kproxy.analyses.library import tables_of
from kproxy.analyses.report.templates import shown_by
from kproxy.analyses.report.verdicts import Answer, Report
from kproxy.analyses.report.words import WHOLE, cell, cell_of, column_cells, overview, source_names
from kproxy.output.text.styles import PLAIN, Style, cut
from kproxy.output.times import counted

MOST_VERDICTS = 8
MOST_ROWS = 20
WIDEST_CELL = 40
MOST_FIRST = 5  # verdicts of the first answer
LINES = 2  # for a verdict of severity info: others have advice, which is never cut
NARROWER = (24, 16)  # cells of names, where the numbers of the headline need the room
LEAST_LAST_CELL = 24  # characters that must be left for the last column


def summary_lines(
    report: Report,
    ask: str,
    *,
    style: Style = PLAIN,
    width: int = 100,
    everything: bool = False,
    command: str = "kproxy report",
) -> Iterator[str]:
    """The verdicts, most important first, in about ten lines, and commands that show more.

    *ask*: the sources as on the command line; *command*: the program that makes the report.
    """
    yield from part_lines(report, style, width)
    yield from textwrap.wrap(
        f"{source_names(report.summary)}: {overview(report.summary)}", width, break_on_hyphens=False
    )
    verdicts = report.verdicts
    shown = verdicts if everything else verdicts[:MOST_VERDICTS]
    if shown:
        yield ""
    for answer in shown:
        yield from _verdict(answer, style, width, is_cut=not everything)
    if not shown:
        return
    yield ""
    hidden = len(verdicts) - len(shown)
    if hidden:
        yield f"{counted(hidden, 'more verdict')}: {command} --all {ask}"
    first = shown[0].analysis.id
    more = "More" if shown[0].severity == "info" else "Evidence"
    for wish, option in ((more, f"--only {first}"), ("A page for a ticket", "-o report.html")):
        yield style.paint(style.dim, f"{wish}: {command} {option} {ask}")  # not wrapped: people copy it


def first_lines(report: Report, analyses: int, *, style: Style = PLAIN, width: int = 100) -> Iterator[str]:
    """The first answer, shown while the sources are still being read. *analyses*: how many the whole report will run."""
    yield style.paint(style.name, f"First answer, from {report.part}")
    yield from textwrap.wrap(f"{overview(report.summary)}", width, break_on_hyphens=False)
    verdicts = report.verdicts[:MOST_FIRST]
    if verdicts:
        yield ""
    for answer in verdicts:
        yield from _verdict(answer, style, width)
    yield ""
    ran = f"{len(report.answers)} of {counted(analyses, 'analysis', 'analyses')} ran so far, over that part only"
    for line in textwrap.wrap(f"{ran}: numbers will grow, verdicts may change. The rest is being read.", width):
        yield style.paint(style.dim, line)
    yield ""


def part_lines(report: Report, style: Style = PLAIN, width: int = 100) -> Iterator[str]:
    """A warning if only a part of the sources was read."""
    if report.part:
        for line in textwrap.wrap(f"Interrupted: this is from {report.part}, not from all.", width):
            yield style.paint(style.warning, line)


def answer_lines(
    answer: Answer,
    *,
    style: Style = PLAIN,
    width: int = 100,
    most: int | None = None,
    long: bool = False,
    compared: str = "",
) -> Iterator[str]:
    """One analysis: its meaning, its rows, what to do. *long*: show each row field by field."""
    header = answer.analysis.header
    yield style.paint(style.name, f"{answer.analysis.title}  ({answer.analysis.id}, {answer.severity})")
    yield from textwrap.wrap(header.meaning, width)
    if compared and "sides" in tables_of(answer.analysis):
        yield ""
        yield from textwrap.wrap(compared, width, break_on_hyphens=False, break_long_words=False)
    if answer.verdict:
        yield ""
        yield from textwrap.wrap(answer.verdict, width)
    if not answer.rows.num_rows and not answer.verdict:
        yield from ("", "Nothing found in this traffic.")
    elif answer.fires or not answer.verdict:
        yield ""
        telling = answer.analysis.columns if long else header.columns
        named = shown_by(header.verdict)
        yield from row_lines(answer.rows, style=style, width=width, most=most, telling=telling, named=named, long=long)
    basis = header.basis.in_words() if header.basis else ""
    notes = [
        ("Do", header.action if answer.fires else ""),
        ("Rests on", basis),
        ("See", header.reference),
        ("Parameters", ", ".join(f"{name}={cell(value)}" for name, value in answer.parameters.items())),
    ]
    if any(text for _, text in notes):
        yield ""
    for name, text in notes:
        if text:
            yield from textwrap.wrap(
                f"{name}: {text}", width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
            )


def row_lines(
    rows: Any,
    *,
    style: Style = PLAIN,
    width: int = 100,
    most: int | None = None,
    widest: int = WIDEST_CELL,
    telling: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    long: bool = False,
) -> Iterator[str]:
    """A table, or field by field where the table would be wider than the terminal or *long* is set.

    With *telling* (column -> meaning, the most telling first) a table of several rows has the columns that fit, and below it what
    they mean. *named*: the columns that the headline names, which the table has before all others.
    """
    if not rows.num_rows:
        yield "no rows"
        return
    shown = rows.slice(0, MOST_ROWS if most is None else most).to_pylist()
    columns = [_column(name, shown, widest) for name in rows.column_names]
    chosen = [] if long else columns if _fits(columns, width) else []
    if not chosen and not long and telling is not None and rows.num_rows > 1:
        chosen = _choose(columns, telling, named, width)
    if chosen:
        yield from _table(chosen, style)
    else:
        yield from _fields(rows.column_names, shown, style, width)
    if rows.num_rows > len(shown):
        yield style.paint(
            style.dim, f"... {rows.num_rows - len(shown):,} more rows: --rows {rows.num_rows}, or --format json"
        )
    visible = {each.name for each in chosen}
    hidden = [each.name for each in columns if each.name not in visible and not each.is_empty] if chosen else []
    if hidden:
        yield from textwrap.wrap(f"more columns with --long: {', '.join(hidden)}", width, subsequent_indent="  ")
    legend = [
        (name, meaning)
        for name, meaning in (telling or {}).items()
        if meaning and name in (visible or rows.column_names)
    ]
    if legend:
        yield ""
    for name, meaning in legend:
        yield from textwrap.wrap(f"{name}: {meaning}", width, subsequent_indent="  ", break_on_hyphens=False)


class _Column(NamedTuple):
    name: str
    width: int
    right: bool
    cells: list[str]

    @property
    def is_empty(self) -> bool:
        return not any(self.cells)

    def cut(self, widest: int) -> "_Column":
        """The column with longer cells cut, but not its name."""
        return self._replace(width=min(self.width, max(widest, len(self.name))))


def _column(name: str, rows: list[dict[str, Any]], widest: int) -> _Column:
    texts = column_cells(name, [row[name] for row in rows])
    width = max(len(name), *(min(_cells(text), widest) for text in texts))
    first = next((row[name] for row in rows if row[name] is not None), None)
    right = is_number(first) and cell_of(name, first) == cell(first)
    return _Column(name, width, right, texts)


def _fits(columns: Sequence[_Column], width: int) -> bool:
    return sum(column.width + 2 for column in columns) - 2 <= width


def _choose(columns: list[_Column], telling: Iterable[str], named: Collection[str], width: int) -> list[_Column]:
    """The columns of a table that is not wider, first of all those that the headline names; none where fields say it better."""
    filled = {column.name: column for column in columns if not column.is_empty}
    order = [name for name in telling if name in filled] or list(filled)
    for widest in NARROWER:
        if _fits([filled[name] for name in order if name in named], width):
            break
        filled |= {name: filled[name].cut(widest) for name in order if name in named and not filled[name].right}
    chosen: dict[str, _Column] = {}
    for name in sorted(order, key=lambda name: (name not in named, name in named and not filled[name].right)):
        column, left = filled[name], width - sum(each.width + 2 for each in chosen.values())
        if column.width <= left:
            chosen[name] = column
            continue
        if column.right and name in named:
            return []
        if not column.right and left >= max(LEAST_LAST_CELL, len(name)):
            chosen[name] = column._replace(width=left)
        break
    return [chosen[name] for name in order if name in chosen] if len(chosen) > 1 else []


def _verdict(answer: Answer, style: Style, width: int, *, is_cut: bool = True) -> Iterator[str]:
    color = {"critical": style.error, "warning": style.warning, "notice": style.key}.get(answer.severity, style.dim)
    margin = f"{answer.severity:<8}  "
    text = f"{answer.analysis.id}: {answer.verdict}"
    wrapped = textwrap.wrap(text, max(width - len(margin), 20), break_long_words=True, break_on_hyphens=False)
    if is_cut and answer.severity == "info" and len(wrapped) > LINES:
        wrapped = [*wrapped[: LINES - 1], cut(" ".join(wrapped[LINES - 1 :]), max(width - len(margin), 20))]
    for at, line in enumerate(wrapped):
        yield (style.paint(color, margin) if not at else " " * len(margin)) + line


def _table(columns: Sequence[_Column], style: Style) -> Iterator[str]:
    yield style.paint(style.dim, _row([column.name for column in columns], columns))
    for row in zip(*(column.cells for column in columns), strict=True):
        yield _row([cut(text, column.width) for text, column in zip(row, columns, strict=True)], columns)


def _row(cells: Iterable[str], columns: Sequence[_Column]) -> str:
    padded = [
        " " * (column.width - _cells(text)) + text if column.right else text + " " * (column.width - _cells(text))
        for text, column in zip(cells, columns, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _fields(names: list[str], rows: list[dict[str, Any]], style: Style, width: int) -> Iterator[str]:
    margin = max(map(len, names)) + 4
    for number, row in enumerate(rows, 1):
        if number > 1:
            yield ""
        yield style.paint(style.dim, f"row {number}")
        for name in names:
            if row[name] is not None:
                text = cell_of(name, row[name], WHOLE) or '""'
                first, *rest = textwrap.wrap(text, max(width - margin, 20), drop_whitespace=False) or [""]
                yield f"  {style.paint(style.key, name)}{' ' * (margin - 2 - len(name))}{first}"
                yield from (" " * margin + line for line in rest)


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most text is ASCII

    return cell_len(text)
