"""Conditions as SQL: those in which CEL and SQL do the same, value by value. CEL evaluates all others.

What is compared in tests are CEL and DuckDB over values of all kinds, so that an operation is here only if it is exact: integers
that overflow, null where there must be a value, and a division by zero are errors in CEL, and NULL here (values.py).
"""

import functools

from msgspec.structs import replace

from kproxy.page.columns import COLUMNS, IN_FILTERS, Column
from kproxy.page.filtering import instants, lists
from kproxy.page.filtering.conversions import converted
from kproxy.page.filtering.lists import Listed
from kproxy.page.filtering.operations import (
    are_equal,
    chosen,
    compared,
    contained,
    distinct,
    known,
    same_texts,
    searched,
    whole,
)
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
    Unsigned,
    parse,
)
from kproxy.page.filtering.tokens import tokens_of
from kproxy.page.filtering.values import (
    FAILED,
    SIMPLE,
    Value,
    computed,
    may_fail,
    of_literal,
    of_unsigned,
    opposite,
)

LONGEST = 20_000  # characters of SQL: what is written twice in it grows
MOST_INDEX = 1_000_000
PLAIN = frozenset({"client", "broker", "apiName"})  # texts of addresses, and of Kafka
MACROS = frozenset({*lists.COUNTS, "filter", "map"})
MOST_CONDITIONS = 500  # of items of lists: one macro in another multiplies them


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
        self._lambdas = 0  # so that each has a name of its own
        self._conditions = 0

    def value(self, node: Node) -> Value:
        found = self._of(node)
        if len(found.sql) > LONGEST:
            raise Unknown
        return found

    def _of(self, node: Node) -> Value:  # noqa: PLR0911 - a case a node
        match node:
            case Literal():
                return self._literal(node)
            case Unsigned():
                return of_unsigned(node.value)
            case Name():
                return self._name(node.name)
            case Unary():
                return self._unary(node.operator, self.value(node.of))
            case Binary():
                return self._binary(node)
            case Choice():
                return chosen(*(self.value(one) for one in (node.condition, node.then, node.otherwise)))
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
        if operator == "!":
            return known(FAILED if of.type in SIMPLE else None)
        return known(opposite(of))

    def _binary(self, node: Binary) -> Value:
        left, right = self._listed(node.left), self._listed(node.right)
        if left is not None or right is not None:
            return self._with_list(node, left, right)
        return self._of_two(node.operator, self.value(node.left), self.value(node.right))

    def _with_list(self, node: Binary, left: Listed | None, right: Listed | None) -> Value:
        """An operation of which a side, or both, is written out as a list."""
        if node.operator == "in" and right is not None and left is None:
            return known(lists.among(distinct(self.value(node.left)), right))
        if node.operator not in ("==", "!="):
            raise Unknown
        if left is not None and right is not None:
            found = known(lists.same(left, right))
        else:
            listed, other = (left, node.right) if left is not None else (right, node.left)
            assert listed is not None
            found = same_texts(self.value(other), listed)
        return _negated(found, node.operator == "!=")

    def _of_two(self, operator: str, left: Value, right: Value) -> Value:
        if operator in ("&&", "||"):
            if not left.type == right.type == "truth":
                raise Unknown
            joint = "AND" if operator == "&&" else "OR"
            return Value(f"({left.sql} {joint} {right.sql})", "truth", fails=may_fail(left, right))
        if operator in ("==", "!="):
            return _negated(are_equal(left, right), operator == "!=")
        if operator == "in":
            return contained(left, right)
        if operator in ("<", "<=", ">", ">="):
            return compared(operator, left, right)
        return known(computed(operator, left, right))

    def _call(self, node: Call) -> Value:
        if node.function == "size" and len(node.arguments) == 1 and (listed := self._listed(node.arguments[0])):
            return lists.size(listed)
        if node.is_method and node.function in MACROS:
            return self._macro(node)
        arguments = [self.value(one) for one in node.arguments]
        if node.is_method and len(arguments) == 2:
            return searched(node.function, *arguments)
        if len(arguments) != 1:
            raise Unknown
        (of,) = arguments
        if node.function == "size" and of.type in ("text", "texts"):  # of a text CEL here counts bytes
            return Value(f"{'strlen' if of.type == 'text' else 'len'}({of.sql})", "integer", fails=may_fail(of))
        return known(instants.part_of(of, node.function) if node.is_method else converted(node.function, of))

    def _macro(self, node: Call) -> Value:
        """``list.exists(x, condition)`` and the like."""
        bound = self._bound_by(node)
        listed = self._listed(node.arguments[0])
        if listed is not None:
            if listed.kept is not None or node.function not in lists.COUNTS:
                raise Unknown
            return lists.quantified(node.function, listed.items, self._truths(listed, bound, node.arguments[2]))
        of = self.value(node.arguments[0])
        if of.type != "texts":
            raise Unknown
        self._lambdas += 1
        item = Value(f"v{self._lambdas}", "text")
        condition = self._truth(bound, item, node.arguments[2])
        if node.function == "filter":
            return known(lists.kept_texts(of, item.sql, condition))
        if node.function == "map":
            raise Unknown
        return known(lists.quantified_texts(node.function, of, item.sql, condition))

    def _bound_by(self, node: Call) -> str:
        if len(node.arguments) != 3 or not isinstance(node.arguments[1], Name):
            raise Unknown
        bound = node.arguments[1].name
        if bound in self._bound or bound in COLUMNS:
            raise Unknown
        return bound

    def _listed(self, node: Node) -> Listed | None:
        """A list that is written out, or made of one; None of what is none."""
        if isinstance(node, Items):
            return Listed(tuple(distinct(self.value(item)) for item in node.items))
        if not isinstance(node, Call) or not node.is_method or node.function not in ("filter", "map"):
            return None
        listed = self._listed(node.arguments[0])
        if listed is None:
            return None
        bound = self._bound_by(node)
        if listed.kept is not None:
            raise Unknown
        if node.function == "filter":
            return Listed(listed.items, self._truths(listed, bound, node.arguments[2]))
        made = tuple(self._with(bound, item, node.arguments[2]) for item in listed.items)
        return Listed(tuple(whole(listed.items, distinct(one)) for one in made))

    def _truths(self, listed: Listed, bound: str, condition: Node) -> tuple[Value, ...]:
        """The condition of each item."""
        found, size = [], 0
        for item in listed.items:
            found.append(self._truth(bound, item, condition))
            size += len(found[-1].sql)
            if size > LONGEST:
                raise Unknown
        return tuple(found)

    def _truth(self, bound: str, item: Value, condition: Node) -> Value:
        found = self._with(bound, item, condition)
        if found.type != "truth":
            raise Unknown
        return found

    def _with(self, bound: str, item: Value, node: Node) -> Value:
        """What a macro has behind its comma, of an item."""
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            raise Unknown
        self._bound[bound] = item
        try:
            return self.value(node)
        finally:
            del self._bound[bound]

    def _element(self, node: Element) -> Value:
        at = node.at.value if isinstance(node.at, Literal) else None
        if type(at) is not int or not 0 <= at <= MOST_INDEX:
            raise Unknown
        listed = self._listed(node.of)
        if listed is not None:
            if listed.kept is not None:
                raise Unknown
            return whole(listed.items, listed.items[at]) if at < len(listed.items) else FAILED
        of = self.value(node.of)
        if of.type != "texts":
            raise Unknown
        return Value(f"list_extract({of.sql}, {at + 1})", "text", fails=True)


def _of_column(column: Column) -> Value:
    if column.type == "time":
        return instants.of_time(column.sql)
    return Value(column.sql, column.type, nullable=True, plain=column.name in PLAIN)


def _negated(value: Value, negated: bool) -> Value:
    return replace(value, sql=f"(NOT {value.sql})") if negated else value
