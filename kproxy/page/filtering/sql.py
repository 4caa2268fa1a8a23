"""Conditions as SQL: those in which CEL and SQL do the same, value by value. CEL evaluates all others.

What is compared in tests are CEL and DuckDB over values of all kinds, so that an operation is here only if it is exact: integers
that overflow, null where there must be a value, and a division by zero are errors in CEL, and NULL here (values.py).
"""

import functools

from msgspec.structs import replace

from kproxy.page.columns import COLUMNS, IN_FILTERS, Column
from kproxy.page.filtering import instants
from kproxy.page.filtering.patterns import is_common
from kproxy.page.filtering.syntax import (
    Binary,
    Call,
    Choice,
    Element,
    Items,
    Literal,
    Name,
    Node,
    Unary,
    Unknown,
    parse,
)
from kproxy.page.filtering.tokens import tokens_of
from kproxy.page.filtering.values import (
    NUMBERS,
    Value,
    comparable,
    computed,
    equal,
    may_fail,
    of_literal,
    opposite,
    ordered,
)

LONGEST = 20_000  # characters of SQL: what is written twice in it grows
PLAIN = frozenset({"client", "broker", "apiName"})  # texts of addresses, and of Kafka
SEARCHES = {"contains": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}
MACROS = {"exists": "> 0", "all": "= 0", "exists_one": "= 1", "existsOne": "= 1"}


@functools.lru_cache(maxsize=1024)
def condition_sql(text: str) -> tuple[frozenset[str], str] | None:
    """The names of columns in a condition that CEL has compiled, and the condition as SQL; None where only CEL will do.

    The SQL is true, false, or NULL where CEL fails.
    """
    writer = _Writer()
    try:
        found = writer.value(parse(tokens_of(text)))
    except (Unknown, RecursionError):
        return None
    if found.type != "truth" or found.nullable or len(found.sql) > LONGEST:
        return None
    return frozenset(writer.names), found.sql


class _Writer:
    """Writes the SQL of one condition. Each method raises Unknown for what SQL does in another way."""

    def __init__(self) -> None:
        self.names: set[str] = set()  # of columns
        self._bound: dict[str, Value] = {}

    def value(self, node: Node) -> Value:
        found = self._of(node)
        if len(found.sql) > LONGEST:
            raise Unknown
        return found

    def _of(self, node: Node) -> Value:  # noqa: PLR0911 - a case a node
        match node:
            case Literal():
                return self._literal(node)
            case Name():
                return self._name(node.name)
            case Unary():
                return self._unary(node.operator, self.value(node.of))
            case Binary():
                return self._binary(node)
            case Choice():
                return self._choice(*(self.value(one) for one in (node.condition, node.then, node.otherwise)))
            case Call():
                return self._call(node)
            case Element():
                return self._element(node)
            case Items():
                raise Unknown

    @staticmethod
    def _literal(node: Literal) -> Value:
        if isinstance(node.value, str) and "\0" in node.value:
            raise Unknown
        return of_literal(node.value)

    def _name(self, name: str) -> Value:
        if name in self._bound:
            return self._bound[name]
        if name == "event":
            return of_literal("exchange")
        column = COLUMNS.get(name)
        if column is None or name not in IN_FILTERS:
            raise Unknown
        self.names.add(name)
        return _of_column(column)

    @staticmethod
    def _unary(operator: str, of: Value) -> Value:
        if operator == "!" and of.type == "truth":
            return Value(f"(NOT {of.sql})", "truth", fails=may_fail(of))
        return _known(opposite(of) if operator == "-" else None)

    def _binary(self, node: Binary) -> Value:  # noqa: PLR0911 - a case a kind of operator
        if node.operator == "in" and isinstance(node.right, Items):
            return self._among(self.value(node.left), [self.value(one) for one in node.right.items])
        left = self.value(node.left)
        if node.operator in ("==", "!=") and isinstance(node.right, Items):
            return _negated(self._same_list(left, node.right), node.operator == "!=")
        right = self.value(node.right)
        if node.operator in ("&&", "||"):
            if not left.type == right.type == "truth":
                raise Unknown
            joint = "AND" if node.operator == "&&" else "OR"
            return Value(f"({left.sql} {joint} {right.sql})", "truth", fails=may_fail(left, right))
        if node.operator in ("==", "!="):
            return _negated(equal(left, right), node.operator == "!=")
        if node.operator == "in":
            return self._contained(left, right)
        if node.operator in ("<", "<=", ">", ">="):
            return self._ordered(node.operator, left, right)
        return _known(computed(node.operator, left, right))

    @staticmethod
    def _ordered(operator: str, left: Value, right: Value) -> Value:
        mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
        if left.nanoseconds and isinstance(right.literal, str):
            return instants.compared_with(operator, left, right.literal)
        if right.nanoseconds and isinstance(left.literal, str):
            return instants.compared_with(mirrored, right, left.literal)
        if left.type == "truth" or right.type == "truth":
            raise Unknown
        return ordered(operator, left, right)

    @staticmethod
    def _among(left: Value, items: list[Value]) -> Value:
        """``left in [a, b]``"""
        if any(item.literal is None for item in items) or left.nan or left.type == "null":
            raise Unknown
        pairs = [pair for item in items if (pair := comparable(left, item)) is not None]
        if len({pair[0].type for pair in pairs}) > 1 or len({pair[0].sql for pair in pairs}) > 1:
            raise Unknown
        listed = ", ".join(pair[1].sql for pair in pairs)
        sql = f"({pairs[0][0].sql} IN ({listed}))" if pairs else "false"
        if left.nullable:
            sql = f"coalesce({sql}, false)"
        elif left.fails and not pairs:
            sql = f"(CASE WHEN {left.sql} IS NOT NULL THEN false END)"
        return Value(sql, "truth", fails=left.fails)

    @staticmethod
    def _contained(left: Value, right: Value) -> Value:
        """``left in list``"""
        if right.type != "texts" or left.type != "text":
            raise Unknown
        if left.fails and right.nullable:
            raise Unknown
        sql = f"list_contains({right.sql}, {left.sql})"
        if left.nullable:  # null is in no list of texts
            sql = f"(CASE WHEN {right.sql} IS NOT NULL THEN coalesce({sql}, false) END)"
        return Value(sql, "truth", fails=may_fail(right) or left.fails)

    @staticmethod
    def _same_list(left: Value, items: Items) -> Value:
        if left.type != "texts" or left.fails:
            raise Unknown
        texts = [one.value for one in items.items if isinstance(one, Literal) and isinstance(one.value, str)]
        if len(texts) < len(items.items) or any("\0" in text for text in texts):
            raise Unknown
        listed = ", ".join(of_literal(text).sql for text in texts)
        return Value(f"({left.sql} IS NOT DISTINCT FROM [{listed}]::VARCHAR[])", "truth")

    @staticmethod
    def _choice(condition: Value, then: Value, otherwise: Value) -> Value:
        if condition.type != "truth" or then.type != otherwise.type or then.nullable or otherwise.nullable:
            raise Unknown
        sql = f"(CASE {condition.sql} WHEN true THEN {then.sql} WHEN false THEN {otherwise.sql} END)"
        return Value(sql, then.type, fails=True, nan=then.nan or otherwise.nan, plain=then.plain and otherwise.plain)

    def _call(self, node: Call) -> Value:
        if node.is_method and node.function in MACROS:
            return self._macro(node)
        arguments = [self.value(one) for one in node.arguments]
        if node.is_method and len(arguments) == 2:
            return self._search(node.function, *arguments)
        if len(arguments) != 1:
            raise Unknown
        (of,) = arguments
        if node.function == "size" and of.type in ("text", "texts"):  # of a text CEL here counts bytes
            return Value(f"{'strlen' if of.type == 'text' else 'len'}({of.sql})", "integer", fails=may_fail(of))
        if node.is_method:
            if of.type != "stamp":
                raise Unknown
            return _known(instants.part_of(of, node.function))
        return _known(_converted(node.function, of))

    @staticmethod
    def _search(function: str, text: Value, of: Value) -> Value:
        if not text.type == of.type == "text":
            raise Unknown
        fails = may_fail(text, of)
        if function in SEARCHES:
            return Value(f"{SEARCHES[function]}({text.sql}, {of.sql})", "truth", fails=fails)
        if function == "matches" and isinstance(of.literal, str) and is_common(of.literal, plain=text.plain):
            return Value(f"regexp_matches({text.sql}, {of.sql})", "truth", fails=fails)
        raise Unknown

    def _macro(self, node: Call) -> Value:
        """``list.exists(e, condition)``; of conditions that cannot fail, as CEL stops where one does."""
        if len(node.arguments) != 3 or not isinstance(node.arguments[1], Name):
            raise Unknown
        of, bound = self.value(node.arguments[0]), node.arguments[1].name
        if of.type != "texts" or bound in self._bound or bound in COLUMNS:
            raise Unknown
        self._bound[bound] = Value(f"v{len(self._bound)}", "text")
        condition = self.value(node.arguments[2])
        name = self._bound.pop(bound).sql
        if condition.type != "truth" or may_fail(condition):
            raise Unknown
        kept = f"NOT {condition.sql}" if node.function == "all" else condition.sql
        return Value(
            f"(len(list_filter({of.sql}, lambda {name}: {kept})) {MACROS[node.function]})", "truth", fails=may_fail(of)
        )

    def _element(self, node: Element) -> Value:
        of = self.value(node.of)
        if (
            of.type != "texts"
            or not isinstance(node.at, Literal)
            or type(node.at.value) is not int
            or node.at.value < 0
        ):
            raise Unknown
        if node.at.value > 1_000_000:
            raise Unknown
        return Value(f"list_extract({of.sql}, {node.at.value + 1})", "text", fails=True)


def _of_column(column: Column) -> Value:
    if column.type == "time":
        return instants.of_time(column.sql)
    return Value(column.sql, column.type, nullable=True, plain=column.name in PLAIN)


def _converted(function: str, of: Value) -> Value | None:  # noqa: PLR0911 - a case a conversion
    fails = may_fail(of)
    if function == "string" and of.type == "integer":
        return Value(f"CAST({of.sql} AS VARCHAR)", "text", fails=fails, plain=True)
    if function == "string" and of.type == "text":
        return replace(of, nullable=False, fails=fails, literal=None)
    if function == "double" and of.type in NUMBERS:
        return replace(of, sql=f"CAST({of.sql} AS DOUBLE)", type="number", nullable=False, fails=fails, literal=None)
    if function == "int" and of.type == "integer":
        return replace(of, nullable=False, fails=fails, literal=None)
    if function == "int" and of.type == "number" and not of.nan:
        inside = f"{of.sql} > -9223372036854775808.0::DOUBLE AND {of.sql} < 9223372036854775807.0::DOUBLE"
        return Value(f"(CASE WHEN {inside} THEN CAST(trunc({of.sql}) AS BIGINT) END)", "integer", fails=True)
    if function == "timestamp":
        return instants.stamp_of(of)
    return instants.span_of(of) if function == "duration" else None


def _negated(value: Value, negated: bool) -> Value:
    return replace(value, sql=f"(NOT {value.sql})") if negated else value


def _known(value: Value | None) -> Value:
    if value is None:
        raise Unknown
    return value
