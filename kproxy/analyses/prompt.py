"""A prompt for queries, with completion of tables, columns and keywords.

It uses prompt_toolkit for its menu and its editing of several lines; the standard library's readline has no menu. pgcli and
litecli, which use it too, are programs for one database each.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from kproxy.errors import UsageError

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "LIMIT", "JOIN", "LEFT", "CROSS", "ON", "USING",
    "AS", "AND", "OR", "NOT", "NULL", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "CASE", "WHEN", "THEN", "ELSE", "END",
    "DISTINCT", "WITH", "UNION", "ALL", "EXCEPT", "INTERSECT", "DESCRIBE", "SHOW", "TABLES", "SUMMARIZE", "EXPLAIN",
    "FILTER", "OVER", "PARTITION", "UNNEST", "INTERVAL", "TIMESTAMP", "CAST", "ASC", "DESC", "NULLS", "FIRST",
    "LAST", "QUALIFY", "VALUES", "CREATE", "VIEW", "TRUE", "FALSE",
)  # fmt: skip
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
QUALIFIED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z0-9_]*)$")
AFTER_TABLE_WORD = re.compile(r"\b(from|join|describe|summarize|table)\s+[A-Za-z0-9_]*$", re.IGNORECASE)
ALIAS = re.compile(r"\b(?:from|join)\s+([a-z_][a-z0-9_]*)\s+(?:as\s+)?([a-z_][a-z0-9_]*)", re.IGNORECASE)
HELP = "End a query with ; (or an empty line). Tab completes. \\d lists the tables, \\d TABLE its columns, \\q or Ctrl-D leaves."


class SqlCompleter(Completer):
    """Completes what is being written: tables after FROM and JOIN, columns after ``table.``, else everything."""

    def __init__(self, columns: dict[str, list[str]], functions: Iterable[str] = ()) -> None:
        self._columns = columns
        self._functions = list(functions)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if qualified := QUALIFIED.search(before):
            yield from self._matching(self._columns_of(qualified[1], document.text), qualified[2], "column")
            return
        word = WORD.search(before)
        begun = word[0] if word else ""
        if AFTER_TABLE_WORD.search(before):
            yield from self._matching(self._columns, begun, "table")
            return
        if not begun:
            return
        yield from self._matching(self._columns_in(document.text), begun, "column")
        yield from self._matching(self._columns, begun, "table")
        yield from self._matching(KEYWORDS, begun, "")
        yield from self._matching(self._functions, begun, "function")

    def _matching(self, names: Iterable[str], begun: str, kind: str) -> Iterator[Completion]:
        for name in dict.fromkeys(names):
            if name.lower().startswith(begun.lower()) and name.lower() != begun.lower():
                yield Completion(name, start_position=-len(begun), display_meta=kind)

    def _columns_of(self, name: str, text: str) -> list[str]:
        aliases = {alias.lower(): table.lower() for table, alias in ALIAS.findall(text)}
        return self._columns.get(aliases.get(name.lower(), name.lower()), [])

    def _columns_in(self, text: str) -> list[str]:
        """The columns of the tables in the query, or of all tables if it names none yet."""
        words = {word.lower() for word in re.findall(r"\w+", text)}
        named = [columns for table, columns in self._columns.items() if table in words]
        return sorted({column for columns in (named or self._columns.values()) for column in columns})


def run_prompt(
    columns: dict[str, list[str]],
    functions: Iterable[str],
    show: Callable[[str], None],
    say: Callable[[str], None],
    *,
    terminal: tuple[Input, Output] | None = None,
) -> None:
    """Read queries and call *show* with each, until end of input. After a mistake print its sentence and read the next query."""
    session: PromptSession[str] = PromptSession(
        completer=SqlCompleter(columns, functions),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=_bindings(),
        prompt_continuation="      ",
        complete_while_typing=True,
        input=None if terminal is None else terminal[0],
        output=None if terminal is None else terminal[1],
    )
    say(HELP)
    while True:
        try:
            text = session.prompt("sql > ").strip()
        except EOFError:
            return
        except KeyboardInterrupt:  # Ctrl-C drops what was written
            continue
        if text.rstrip(";").lower() in ("\\q", "exit", "quit"):
            return
        if text:
            _answer(text, columns, show, say)


def _answer(text: str, columns: dict[str, list[str]], show: Callable[[str], None], say: Callable[[str], None]) -> None:
    try:
        if text.startswith("\\"):
            say(_described(text.rstrip(";"), columns))
        else:
            show(text)
    except UsageError as error:
        say(str(error))
    except KeyboardInterrupt:
        say("interrupted")


def _described(text: str, columns: dict[str, list[str]]) -> str:
    command, _, name = text.partition(" ")
    if command != "\\d":
        return HELP
    if not name.strip():
        return "\n".join(f"{table:<20}  {len(found)} columns" for table, found in columns.items())
    if name.strip() not in columns:
        raise UsageError(f"there is no table {name.strip()[:80]!r}; \\d lists them")
    return "\n".join(columns[name.strip()])


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        """End the query at a semicolon, after a command, or at an empty line; else begin a new line."""
        buffer = event.current_buffer
        text = buffer.text.strip()
        is_last = not buffer.document.text_after_cursor.strip()
        is_command = text.startswith("\\") or text.lower() in ("exit", "quit")
        if is_last and (not text or text.endswith(";") or is_command or not buffer.document.current_line.strip()):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
