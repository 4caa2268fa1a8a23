"""Filters: conditions of ``kproxy decode --where`` over the rows of a store.

A condition is taken apart (parts.py). A part for which SQL gives exactly what CEL does becomes SQL (sql.py). Any other part on
columns is answered by CEL once for each distinct combination of the values of its names. Parts on bodies are answered by CEL for
the lines of the rows that all other parts leave. CEL runs in processes of its own (worker.py).
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kproxy.errors import OptionError, UsageError
from kproxy.output.where import NAMES, Where
from kproxy.page.columns import COLUMNS, IN_FILTERS
from kproxy.page.filtering.parts import Part, as_cel, conjuncts, leaves, take_apart, tokens_of
from kproxy.page.filtering.sql import condition_sql
from kproxy.page.filtering.worker import FALSE, MADE_OF, OTHER, TRUE, Question, Workers
from kproxy.page.work import Cancelled, Work
from kproxy.protocol.expressions import BOUND, Expression, located
from kproxy.protocol.vocabulary import Scope, fields_in

if TYPE_CHECKING:
    import duckdb
    import pyarrow

    from kproxy.page.store import Store

LONGEST = 4_000  # characters
DEEPEST = 60  # brackets in brackets
BATCH = 50_000  # rows of values of a question
LINES, LINES_SIZE = 2_000, 8_000_000  # lines of a question, and their bytes
NOT_OF_EXCHANGES = fields_in(Scope.OTHER_LINES).keys() - fields_in(Scope.LOG).keys()
KINDS = {"time": "time"}  # column type -> how CEL's value is made of SQL's
COLUMNS_OF = {  # field -> the columns that it is made from
    "trailing": {"requestTrailingBytes", "responseTrailingBytes"},
    "errors": {"errorCodes"},
    "errorNames": {"errorCodes"},
    "address": {"client"},
}
SPECIAL = {  # field -> SQL of what it is made from
    "trailing": "[e.request_trailing_bytes, e.response_trailing_bytes]",
    "errors": "e.error_codes",
    "errorNames": "e.error_codes",
    "address": "e.client",
}
UNNAMES = re.compile(r"nothing is called '(\w+)'")
INSTEAD = {  # of columns that only the table has -> a condition
    "errorName": '"NOT_LEADER_OR_FOLLOWER" in errorNames',
    "errorCodes": "errors.exists(e, e.code == 6)",
    "acks": "request.acks == 0",
    "throttleTimeMs": "response.throttleTimeMs > 0",
}
SQL_JOINTS = {"&&": " AND ", "||": " OR "}
GO_ON = "Ask again to go on from there, or add a condition on columns, such as apiName, topics or requestAt"
# What is the same for the distinct codes of an exchange as for all its errors
OF_ANY_ERROR = re.compile(r"errors\s*\.\s*(?:exists|all)\s*\(\s*([A-Za-z_]\w*)\s*,(.*)\)", re.DOTALL)
COUNT = r"(?:size\s*\(\s*errors\s*\)|errors\s*\.\s*size\s*\(\s*\))"
OF_NO_ERROR = re.compile(rf"{COUNT}\s*(?:(?:>|==|!=|<=)\s*0|(?:>=|<)\s*1)|errors\s*[=!]=\s*\[\s*\]")


class FilterError(UsageError):
    """A filter that is wrong. ``column`` counts from 1, ``length`` is in characters; None where there is no place."""

    def __init__(self, sentence: str, column: int | None = None, length: int | None = None) -> None:
        super().__init__(sentence)
        self.column = column
        self.length = length


class Unfinished(Cancelled):
    """A filter was cancelled.

    Args:
        why: a sentence.
        numbers: of the rows found so far, a pyarrow.Array.
        through: the last number that was examined.
    """

    def __init__(self, why: str, numbers: Any, through: int) -> None:
        super().__init__(why)
        self.numbers = numbers
        self.through = through


class Filter:
    """A condition that was checked. Raises FilterError for one with a mistake."""

    def __init__(self, condition: str) -> None:
        self._check_size(condition)
        self.condition = as_cel(condition)
        try:
            checked = Where(self.condition)
        except OptionError as error:
            wrong = _placed(str(error), self.condition)
            raise wrong if self.condition == condition else FilterError(str(wrong)) from None
        self.names = set(checked.names)
        # A name of exchanges that a macro binds counts as bound in the whole condition
        is_apart = set(BOUND.findall(self.condition)).isdisjoint(NAMES)
        self.part = take_apart(self.condition) if is_apart else Part(self.condition)

    @staticmethod
    def _check_size(condition: str) -> None:
        if len(condition) > LONGEST:
            raise FilterError(f"a filter has at most {LONGEST:,} characters", LONGEST + 1, len(condition) - LONGEST)
        depth = signs = 0
        for token in tokens_of(condition):
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            signs = signs + 1 if token.text in ("!", "-") else 0
            if depth + signs > DEEPEST:
                raise FilterError(f"a filter has at most {DEEPEST} brackets inside each other", token.at + 1, 1)

    def select(self, store: "Store", worker: Workers, work: Work, after: int, last: int) -> "pyarrow.Array":
        """Return the numbers of the rows after *after*, up to *last*, for which it is true, ascending.

        Raises FilterError for a condition that gives something else than true or false, or that the store cannot answer;
        Cancelled, Unfinished.
        """
        return _Selecting(self, store, worker, work, (after + 1, last)).numbers()


class _Selecting:
    """One evaluation of a filter."""

    def __init__(self, filter_: Filter, store: "Store", worker: Workers, work: Work, numbers: tuple[int, int]) -> None:
        self._filter = filter_
        self._store = store
        self._worker = worker
        self._work = work
        self._range = numbers
        self._within = f"e.number BETWEEN {numbers[0]} AND {numbers[1]}"
        self._joins: list[str] = []
        self._tables: dict[str, Any] = {}
        self._names: set[str] = set()  # of columns that the query needs

    def numbers(self) -> "pyarrow.Array":
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        if self._filter.names & NOT_OF_EXCHANGES:
            return pa.array([], pa.int64())  # as kproxy decode does: such a name belongs to other events
        parts = conjuncts(self._filter.part)
        of_bodies = [part for part in parts if any(_is_of_bodies(leaf) for leaf in leaves(part))]
        lacking = self._store.lacking({name for part in of_bodies for name in _names(part.text)})
        if lacking:
            raise _where(lacking, self._filter.condition, of_bodies)
        cursor = self._store.cursor()
        try:
            with self._work.ended_by(cursor.interrupt):
                of_columns = self._of_columns(cursor, [part for part in parts if part not in of_bodies])
            return self._of_bodies(of_columns, of_bodies) if of_bodies else of_columns
        finally:
            cursor.close()

    def _of_columns(self, cursor: "duckdb.DuckDBPyConnection", parts: list[Part]) -> "pyarrow.Array":
        plain = [part for part in parts if all(condition_sql(leaf.text) for leaf in leaves(part))]
        conditions = [self._sql(cursor, part, "") for part in plain]
        before = " AND ".join(conditions)
        conditions += [self._sql(cursor, part, before) for part in parts if part not in plain]
        where = "".join(f" AND {condition}" for condition in conditions)
        source = self._store.rows_between(sorted(self._names | {"number"}), *self._range)
        query = f"SELECT e.number FROM {source} {' '.join(self._joins)} WHERE {self._within}{where} ORDER BY e.number"
        return cursor.sql(query).to_arrow_table().column(0).combine_chunks()

    def _sql(self, cursor: "duckdb.DuckDBPyConnection", part: Part, before: str) -> str:
        if part.joint:
            parts = [self._sql(cursor, one, before) for one in part.parts]
            return f"(NOT {parts[0]})" if part.joint == "!" else f"({SQL_JOINTS[part.joint].join(parts)})"
        known = condition_sql(part.text)
        if known is None:
            return self._of_values(cursor, part, before)
        self._names |= known[0]
        return known[1]

    def _of_values(self, cursor: "duckdb.DuckDBPyConnection", leaf: Part, before: str) -> str:
        """Have CEL answer a leaf once for each distinct combination of its values; return SQL for the verdict."""
        names = [name for name in _names(leaf.text) if name != "event"]
        if not names:
            (verdict,) = self._checked(self._worker.ask(_question(leaf, [], [], 1), self._work))
            return {TRUE: "true", FALSE: "false"}.get(verdict, "NULL::BOOLEAN")
        for name in names:
            self._names |= COLUMNS_OF.get(name, {name})
        keys = [SPECIAL.get(name) or COLUMNS[name].sql for name in names]
        chosen = ", ".join(f"{key} AS k{at}" for at, key in enumerate(keys))
        source = self._store.rows_between(sorted(self._names | {"number"}), *self._range)
        narrowed = f" AND {before}" if before else ""
        query = f"SELECT DISTINCT {chosen} FROM {source} WHERE {self._within}{narrowed}"
        values = cursor.sql(query).to_arrow_table()
        questions = (
            _question(leaf, names, [column.to_pylist() for column in batch.columns], batch.num_rows)
            for batch in values.to_batches(max_chunksize=BATCH)
        )
        return self._join(cursor, values, self._answers(questions), keys)

    def _join(self, cursor: "duckdb.DuckDBPyConnection", values: Any, verdicts: bytes, keys: list[str]) -> str:
        import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

        name = f"page_verdicts_{len(self._tables)}"
        answered = pa.Array.from_buffers(pa.uint8(), len(verdicts), [None, pa.py_buffer(verdicts)])
        self._tables[name] = values.append_column("verdict", answered)  # kept here while the query uses it
        cursor.register(name, self._tables[name])
        same = " AND ".join(f"{name}.k{at} IS NOT DISTINCT FROM {key}" for at, key in enumerate(keys))
        self._joins.append(f"LEFT JOIN {name} ON {same}")
        return f"(CASE {name}.verdict WHEN {TRUE} THEN true WHEN {FALSE} THEN false END)"

    def _of_bodies(self, numbers: "pyarrow.Array", parts: list[Part]) -> "pyarrow.Array":
        condition = parts[0].text if len(parts) == 1 else " && ".join(f"({part.text})" for part in parts)
        names = _names(condition)
        wanted = (numbers[start : start + LINES].to_pylist() for start in range(0, len(numbers), LINES))
        made_of = [MADE_OF.get(name, name) for name in names]
        lines = (some for one in wanted for some in batches_of(self._store.lines(one, made_of), LINES_SIZE))
        answered = bytearray()
        try:
            for answer in self._worker.ask_all((Question(condition, names, lines=some) for some in lines), self._work):
                answered += self._checked(answer)
        except Cancelled as error:
            done = len(answered)
            sentence = f"{error}: {done:,} of the {len(numbers):,} exchanges whose bodies it needs were read. {GO_ON}"
            raise Unfinished(sentence, _true_of(numbers, answered), numbers[done].as_py() - 1) from None
        return _true_of(numbers, answered)

    def _answers(self, questions: Iterable[Question]) -> bytes:
        return b"".join(self._checked(answer) for answer in self._worker.ask_all(questions, self._work))

    def _checked(self, verdicts: bytes) -> bytes:
        """Return the verdicts. Raises FilterError if the whole condition is neither true nor false; a part may be an error."""
        if OTHER in verdicts and not self._filter.part.joint:
            raise FilterError("the filter must give true or false", 1, len(self._filter.condition))
        return verdicts


@functools.lru_cache(maxsize=1024)
def _names(text: str) -> list[str]:
    """Return the names in a condition, except for those that macros bind, sorted."""
    return Expression(text, NAMES, "where").names


def _is_of_bodies(leaf: Part) -> bool:
    """Return whether a leaf needs more of an exchange than its columns."""
    if condition_sql(leaf.text) is not None:
        return False
    names = set(_names(leaf.text))
    if "errors" in names:
        return not (names == {"errors"} and _needs_only_codes(leaf.text))
    return not all(name in ("event", "trailing", "errorNames", "address") or name in IN_FILTERS for name in names)


def _question(leaf: Part, names: list[str], columns: list[list[Any]], count: int) -> Question:
    kinds = [name if name in SPECIAL else KINDS.get(COLUMNS[name].type, "") for name in names]
    if "event" in _names(leaf.text):
        names, kinds, columns = [*names, "event"], [*kinds, ""], [*columns, ["exchange"] * count]
    return Question(leaf.text, names, kinds, columns, count)


def _needs_only_codes(text: str) -> bool:
    if OF_NO_ERROR.fullmatch(text):
        return True
    macro = OF_ANY_ERROR.fullmatch(text)
    if macro is None:
        return False
    tokens = tokens_of(macro[2])
    for at, token in enumerate(tokens):
        if token.kind == "name" and token.text == "errors":
            return False
        if token.kind == "name" and token.text == macro[1] and (at == 0 or tokens[at - 1].text != "."):
            after = [one.text for one in tokens[at + 1 : at + 3]]
            if after not in ([".", "code"], [".", "name"]):
                return False
    return True


def _true_of(numbers: "pyarrow.Array", verdicts: bytes | bytearray) -> "pyarrow.Array":
    """Return those of the first numbers whose verdicts are true; there may be fewer verdicts than numbers."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    return numbers[: len(verdicts)].filter(pa.array([verdict == TRUE for verdict in verdicts], pa.bool_()))


def batches_of(parts: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield the parts in batches. A batch ends when it has *most* bytes."""
    batch: list[bytes] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part)
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _placed(message: str, condition: str) -> FilterError:
    """Return a message of --where with its place, and without the condition, which the page shows anyway."""
    wrong = located(message, condition, "where")
    unknown = UNNAMES.match(wrong.sentence)
    sentence = wrong.sentence
    if unknown and (name := unknown[1]) in COLUMNS:  # which the table shows
        sentence = f"a filter cannot name the column {name}{f'; write {INSTEAD[name]}' if name in INSTEAD else ''}"
    return FilterError(sentence, wrong.column, wrong.length)


def _where(sentence: str, condition: str, parts: list[Part]) -> FilterError:
    column = condition.find(parts[0].text) + 1 or None
    return FilterError(sentence, column, len(parts[0].text) if column else None)
