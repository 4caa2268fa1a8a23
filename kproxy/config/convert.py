"""YAML text -> nodes with their places (``read_tree``) -> structs, by the types of their fields (``Conversion``).

A hostile file cannot use much memory: size, depth, tokens and aliases are bounded, and tags are refused, so that only plain
values can result. An alias bomb (nine lists of nine aliases each stand for 10^9 values) is small as nodes; the conversion counts
the values that aliases stand for. It collects every mistake with its place, and continues.

The type of the field decides how a value is read, not YAML 1.1: where it is text, ``name: no`` is "no" and ``listen: 12:30`` is
"12:30". Integers are decimal.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import yaml
from msgspec import Struct, inspect

from kproxy.errors import ConfigError, Mistake, did_you_mean, meant_names
from kproxy.options import (
    WITHHELD,
    OptionMistakes,
    bare,
    expected,
    is_secret,
    listed,
    not_one_of,
    parse_quantity,
    quoted,
    within,
)
from kproxy.protocol.vocabulary import OPTION_ALIASES

MOST_TEXT = 1 << 20  # bytes
MOST_EVENTS = 50_000  # a scalar is one, a collection two
MOST_DEPTH = 32
TOO_DEEP = f"values are nested deeper than {MOST_DEPTH} levels"
MOST_ALIASES = 1_000
WORD = re.compile(r"['\"][^'\"<>\s]{3,}['\"]")
INDENTED_BY_TAB = re.compile(r" *\t")

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's where PyYAML was built with it
Node = yaml.nodes.Node
MOST_VALUES = 50_000  # with those that aliases stand for
MOST_MISTAKES = 100
TAG = "tag:yaml.org,2002:"
PLAIN_TAGS = {"str", "int", "float", "bool", "null", "timestamp", "seq", "map", "value"}
TRUE, FALSE = {"true", "yes", "on"}, {"false", "no", "off"}  # YAML 1.1
WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,18})", re.ASCII)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
PLAIN_KINDS: dict[str, inspect.Type] = {  # of YAML's tags, where the field takes any value
    "int": inspect.IntType(),
    "float": inspect.FloatType(),
    "bool": inspect.BoolType(),
}
S = TypeVar("S", bound=Struct)
Place = tuple[int, int]


def read_tree(text: str, source: str) -> Node:
    """Parse the document and return its root node.

    Raises ConfigError: invalid YAML, not exactly one document, or too large. A syntax error hides all other mistakes.
    """
    if len(text) > MOST_TEXT:
        raise ConfigError([Mistake(1, 1, "", f"the file is larger than {MOST_TEXT:,} characters")], source)
    try:
        _measure(yaml.parse(text, Loader=Loader), source)
        root = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_mistake(error, text)], source) from None
    except (yaml.YAMLError, ValueError) as error:  # a character that YAML does not allow
        raise ConfigError([Mistake(1, 1, "", f"invalid YAML: {_one_line(str(error))}")], source) from None
    if root is None:
        raise ConfigError([Mistake(1, 1, "", "the file is empty: write at least clusters")], source)
    return root


def _measure(events: Iterator[yaml.Event], source: str) -> None:
    """Refuse a file that is too large before any node is created: composing is recursive, parsing is not."""
    depth = aliases = 0
    for count, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        why = _too_much(count, depth, aliases)
        if why:
            mark: Any = event.start_mark
            raise ConfigError([Mistake(mark.line + 1, mark.column + 1, "", why)], source)


def _too_much(count: int, depth: int, aliases: int) -> str:
    if depth > MOST_DEPTH:
        return TOO_DEEP
    if aliases > MOST_ALIASES:
        return f"there are more than {MOST_ALIASES:,} aliases (*name)"
    return f"there are more than {MOST_EVENTS:,} values" if count > MOST_EVENTS else ""


def _syntax_mistake(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # what is named in it is a word of the file: an alias or a tag, which may be a password that begins with "*" or "!"
    problem = WORD.sub("a word", _one_line(" ".join(part for part in (error.context, error.problem) if part)))
    before = text.splitlines()[line - 1 : line]
    is_tab = any(INDENTED_BY_TAB.match(one) for one in before)  # libyaml does not say which character it is
    hint = "; indent with spaces" if is_tab else ""
    is_too_deep = "maximum nesting depth" in problem  # libyaml's own bound, which it meets as it reads ahead
    return Mistake(line, column, "", TOO_DEEP if is_too_deep else f"invalid YAML: {problem}{hint}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


class Broken:
    """Takes the place of a value that could not be read, whose mistake is recorded."""


BROKEN = Broken()


class LimitExceeded(Exception):
    """The conversion ends because of too many values or mistakes; the last mistake says which."""


class Conversion:
    """Converts one document.

    Attributes:
        mistakes: all that were found.
        places: the line and column of each path, from 1.
        misspelled: paths that are missing because another name there is probably a misspelling of theirs, which is a mistake.
    """

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self.places: dict[str, Place] = {}
        self.misspelled: set[str] = set()
        self._values = 0
        self._readers: dict[type[inspect.Type], Callable[[Node, Any, str, int], Any]] = {
            inspect.UnionType: self._union,
            inspect.AnyType: self._any,
            inspect.StructType: self._struct,
            inspect.ListType: self._list,
            inspect.DictType: self._dict,
        }

    def convert(self, root: Node, kind: type[S]) -> S:
        """Return a *kind* even if there are mistakes: a broken value has its default, or an empty value where it has none."""
        try:
            made = self._struct(root, cast(inspect.StructType, _described(kind)), "", 0)
        except LimitExceeded:
            made = BROKEN
        return made if isinstance(made, kind) else cast(S, _empty(_described(kind)))

    def add_mistake(self, node: Node, path: str, message: str) -> Broken:
        mark = node.start_mark
        self.mistakes.append(Mistake(mark.line + 1, mark.column + 1, path, message))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise LimitExceeded
        return BROKEN

    def _value(self, node: Node, kind: inspect.Type, path: str, depth: int) -> Any:
        kind, unit = bare(kind)
        self._count(node, path, depth)
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if not node.tag.startswith(TAG) or node.tag.removeprefix(TAG) not in PLAIN_TAGS:
            return self.add_mistake(
                node, path, f"{_tag(node.tag)} is not allowed: write a plain value, in quotes where it begins with !"
            )
        read = self._readers.get(type(kind))
        return read(node, kind, path, depth) if read else self._scalar(node, kind, unit, path)

    def _count(self, node: Node, path: str, depth: int) -> None:
        self._values += 1
        if depth > MOST_DEPTH or self._values > MOST_VALUES:
            self.add_mistake(node, path, "aliases (*name) make this too large: write the values out")
            raise LimitExceeded

    def _union(self, node: Node, kind: inspect.UnionType, path: str, depth: int) -> Any:
        kinds = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        if _is_null(node) and node.value and len(kinds) < len(kind.types):
            return None
        if len(kinds) > 1:  # int | str
            whole = isinstance(node, yaml.ScalarNode) and node.tag == f"{TAG}int" and WHOLE.fullmatch(node.value)
            kinds = [member for member in kinds if isinstance(member, inspect.IntType) is bool(whole)]
        return self._value(node, kinds[0], path, depth + 1)

    def _struct(self, node: Node, kind: inspect.StructType, path: str, depth: int) -> Any:
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        fields = {field.encode_name: field for field in kind.fields}
        if not isinstance(node, yaml.MappingNode):
            return self.add_mistake(node, path, f"expected a group of {listed(fields)}; {_found(node, path)}")
        members = self._members(node, fields, path, depth)
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        meant = meant_names(
            (name for name in names if not _field(name, fields)), fields, fields.keys() - members.keys()
        )
        self.misspelled.update(_join(path, name) for name in meant)
        for name, field in fields.items():
            if field.required and name not in members and name not in meant:
                self.add_mistake(node, _join(path, name), "it is missing")
        values = {fields[name].name: value for name, value in members.items() if value is not BROKEN}
        empty = {field.name: _empty(field.type) for field in kind.fields if field.required}
        try:
            return kind.cls(**{**empty, **values})
        except OptionMistakes as error:  # of its own checks
            if not path:
                raise
            if len(values) == len(members) and not empty.keys() - values.keys():  # else there are mistakes already
                for name, message in error.problems:
                    if name.partition(".")[0] in meant:
                        continue
                    below = _join(path, name)
                    self.mistakes.append(Mistake(*self.places.get(below, self.places[path]), below, message))
            return BROKEN

    def _members(self, node: Node, fields: dict[str, inspect.Field], path: str, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, key, value in self._items(node, path):
            field = _field(name, fields)
            if field is None:
                self.add_mistake(key, _join(path, name), f"unknown name: {did_you_mean(name, fields)}")
            elif field.encode_name in members:
                self.add_mistake(key, _join(path, name), f"{field.encode_name} occurs twice, once by its former name")
            else:
                below = _join(path, field.encode_name)
                members[field.encode_name] = self._value(value, field.type, below, depth + 1)
        return members

    def _items(self, node: Node, path: str) -> Iterator[tuple[str, Node, Node]]:
        """Yield each name with its node and the node of its value; anything else and repeated names are mistakes."""
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == f"{TAG}merge":
                self.add_mistake(key, path, "names have to be plain text; << (merging) is not supported")
            elif key.value in seen:
                self.add_mistake(key, _join(path, key.value), "this name occurs twice")
            else:
                seen.add(key.value)
                yield key.value, key, value

    def _list(self, node: Node, kind: inspect.ListType, path: str, depth: int) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return self.add_mistake(node, path, f"expected a list, [..] or lines with -; {_found(node, path)}")
        if len(node.value) < (kind.min_length or 0):
            return self.add_mistake(node, path, "the list is empty")
        items = [self._value(item, kind.item_type, f"{path}[{at}]", depth + 1) for at, item in enumerate(node.value)]
        empty = _empty(kind.item_type)
        return [empty if item is BROKEN else item for item in items]

    def _dict(self, node: Node, kind: inspect.Type, path: str, depth: int) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self.add_mistake(node, path, f"expected names with values; {_found(node, path)}")
        value_type = kind.value_type if isinstance(kind, inspect.DictType) else inspect.AnyType()
        values = {
            name: self._value(value, value_type, _join(path, name), depth + 1)
            for name, _, value in self._items(node, path)
        }
        return {name: _empty(value_type) if value is BROKEN else value for name, value in values.items()}

    def _any(self, node: Node, kind: inspect.Type, path: str, depth: int) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._dict(node, kind, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return self._list(node, inspect.ListType(kind), path, depth)
        word = node.tag.removeprefix(TAG)
        if word == "null":
            return None
        return self._scalar(node, PLAIN_KINDS.get(word, inspect.StrType()), None, path)

    def _scalar(self, node: Node, kind: inspect.Type, unit: str | None, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return self.add_mistake(node, path, f"expected {expected(kind, unit)}; {_found(node, path)}")
        if _is_null(node):
            return self.add_mistake(node, path, f"it is empty: write {expected(kind, unit)}, or leave the line out")
        try:
            return within(_plain(node, kind, unit), kind)
        except ValueError as error:
            return self.add_mistake(node, path, str(error))


def _field(name: str, fields: Mapping[str, inspect.Field]) -> inspect.Field | None:
    return fields.get(name) or fields.get(OPTION_ALIASES.get(name, ""))


def _plain(node: yaml.ScalarNode, kind: inspect.Type, unit: str | None) -> Any:
    """Convert the scalar to *kind*. Raises ValueError that says what is expected."""
    text: str = node.value
    match kind:
        case inspect.StrType():
            return text
        case inspect.LiteralType(values=choices):
            if text not in choices:
                raise ValueError(f"{quoted(text)} is {not_one_of(text, choices)}")
            return text
        case inspect.BoolType():
            if text.lower() not in TRUE | FALSE:
                raise ValueError(f"{quoted(text)} is neither true nor false")
            return text.lower() in TRUE
        case inspect.IntType() | inspect.FloatType():
            return _number(text, isinstance(kind, inspect.IntType), unit)
    raise TypeError(f"structs.py has a field of the type {kind}, which convert.py cannot read")


def _number(text: str, whole: bool, unit: str | None) -> int | float:
    if unit is not None and not text.startswith("-"):
        value = parse_quantity(text.replace("_", ""), unit)
        return int(value) if whole else value
    if whole:
        if not WHOLE.fullmatch(text):
            raise ValueError(f"{quoted(text)} is not a whole number")
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{quoted(text)} is not a number") from None


@functools.cache
def _described(kind: type[Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def _empty(kind: inspect.Type) -> Any:
    """Return a stand-in for a required value that could not be read."""
    match bare(kind)[0]:
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _empty(field.type) for field in fields if field.required})
        case inspect.ListType():
            return []
        case inspect.StrType():
            return ""
    return 0


def _is_null(node: Node) -> bool:
    return bool(node.tag == f"{TAG}null")


def _found(node: Node, path: str) -> str:
    if isinstance(node, yaml.ScalarNode):
        if is_secret(path, node.value):
            return f"found text, {WITHHELD}"
        return f"found {quoted(node.value)}" if node.value else "found nothing"
    return "found a list" if isinstance(node, yaml.SequenceNode) else "found names with values"


def _tag(tag: str) -> str:
    """Describe a tag. Only YAML's own tags are shown: another word that begins with "!" may be a password."""
    return f"the tag {quoted(f'!!{tag.removeprefix(TAG)}')}" if tag.startswith(TAG) else "a tag"


def _join(path: str, name: str) -> str:
    name = name if IDENTIFIER.fullmatch(name) else quoted(name)
    return f"{path}.{name}" if path else name
