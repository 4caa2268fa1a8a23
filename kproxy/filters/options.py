"""The typed options of filters: a Struct with a type, a default and a description for each, read from plain values.

A filter declares them and gets an instance, checked, as the only argument of its constructor:

    class QuotaOptions(Options, frozen=True):
        rate: Annotated[int, Meta(ge=1), text("Requests in a second.")] = 100
        window: Annotated[Seconds, text("How long a burst may last.")] = 1.0

    class Quota(Filter):
        Options = QuotaOptions

        def __init__(self, options: QuotaOptions) -> None: ...

The types below are those of the configuration too (kproxy.config.structs): Seconds may be written "10s", a Size "16MiB".
``read_options`` finds all mistakes at once, each with its path, from which kproxy.config has the line in the file.
Types that it reads: str, int, float, bool, Literal, other Structs, lists, tuples and dicts of them, and each of these or None.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta, inspect

from kproxy.errors import UsageError
from kproxy.filters.units import EXAMPLES, parse_quantity, quoted
from kproxy.filters.withholding import WITHHELD, is_secret
from kproxy.protocol.vocabulary import OPTION_ALIASES

UNIT = "x-unit"  # marks a number that may be written with a unit
CONDITION = "x-condition"  # marks a condition in CEL; its value is the scope whose fields it uses
LONGEST_TEXT = 4_096
MOST_DEPTH = 32
RANGES: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("ge", operator.ge, "at least"),
    ("gt", operator.gt, "more than"),
    ("le", operator.le, "at most"),
    ("lt", operator.lt, "less than"),
)
EXPECTED: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.DictType: "names with values",
}
TYPES: dict[type[inspect.Type], type | tuple[type, ...]] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: (int, float),
    inspect.BoolType: bool,
    inspect.StructType: dict,
    inspect.DictType: dict,
    inspect.ListType: list,
    inspect.VarTupleType: list,
}
# where text is expected, or a group that may have been meant and written wrongly ("password:x")
HAVE_TEXT = (inspect.StrType, inspect.StructType, inspect.DictType, inspect.ListType, inspect.VarTupleType)

Seconds = Annotated[float, Meta(gt=0, le=31_536_000, extra_json_schema={UNIT: "seconds"})]
Size = Annotated[int, Meta(ge=1, le=1 << 48, extra_json_schema={UNIT: "bytes"})]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Problem = tuple[str, str]  # path, message


def text(description: str) -> Meta:
    """Describe a setting, for the JSON Schema and the reference page."""
    return Meta(description=description)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the options of a filter, and of groups of them; an unknown name is a mistake."""


class Rotated(Options, frozen=True):
    """A file that is rotated by size and age; older parts get numbers."""

    path: Annotated[str, text("Path of the part that is being written; older parts have a number after it.")]
    most_size: Annotated[Size, text("Size at which the next part begins.")] = 100 * 1024 * 1024
    most_age: Annotated[Seconds, text("Age at which the next part begins.")] = 3_600.0
    keep: Annotated[
        int, Meta(ge=1, le=100_000), text("Number of parts, the one being written included; the oldest is deleted.")
    ] = 10


class OptionMistakes(UsageError):
    """The mistakes in the options of a filter; ``problems`` has the path and the message of each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))
        self.problems = problems


S = TypeVar("S", bound=msgspec.Struct)


def read_options(kind: type[S], values: Mapping[str, Any]) -> S:
    """Make the options *kind* from plain values, such as those under ``with``. Raises OptionMistakes with every mistake."""
    problems: list[Problem] = []
    made = _Reading(problems).value(dict(values), inspect.type_info(kind), "", 0)
    if problems:
        raise OptionMistakes(problems)
    return cast(S, made)


class _Reading:
    """Reads values by their types; collects mistakes and continues."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems

    def value(self, value: Any, kind: inspect.Type, path: str, depth: int) -> Any:
        kind, unit = bare(kind)
        if depth > MOST_DEPTH:
            return self._mistake(path, "it is nested too deeply")
        if isinstance(kind, inspect.UnionType):
            return self._union(value, kind, path, depth)
        if isinstance(value, dict | list) and _fits(value, kind):
            return self._group(value, kind, path, depth)
        try:
            return within(_plain(value, kind, unit, path), kind)
        except ValueError as error:
            return self._mistake(path, str(error))

    def _group(self, value: Any, kind: inspect.Type, path: str, depth: int) -> Any:
        match kind:
            case inspect.StructType():
                return self._struct(value, kind, path, depth)
            case inspect.DictType():
                kind = kind.value_type
                return {name: self.value(item, kind, _join(path, str(name)), depth + 1) for name, item in value.items()}
            case inspect.ListType() | inspect.VarTupleType():
                if len(value) < (kind.min_length or 0):
                    return self._mistake(path, "the list is empty")
                items = (self.value(v, kind.item_type, f"{path}[{at}]", depth + 1) for at, v in enumerate(value))
                return list(items) if isinstance(kind, inspect.ListType) else tuple(items)
        return value

    def _mistake(self, path: str, message: str) -> None:
        self._problems.append((path, message))

    def _union(self, value: Any, kind: inspect.UnionType, path: str, depth: int) -> Any:
        kinds = [member for member in kind.types if not isinstance(bare(member)[0], inspect.NoneType)]
        if value is None and len(kinds) < len(kind.types):
            return None
        fitting = [member for member in kinds if _fits(value, bare(member)[0])]
        return self.value(value, (fitting or kinds)[0], path, depth + 1)

    def _struct(self, values: dict[str, Any], kind: inspect.StructType, path: str, depth: int) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        members: dict[str, Any] = {}
        before = len(self._problems)
        for name, value in values.items():
            field = fields.get(name) or fields.get(OPTION_ALIASES.get(name, ""))
            if field is None:
                self._mistake(_join(path, str(name)), f"unknown name{did_you_mean(str(name), fields)}")
            elif name != field.encode_name and field.encode_name in values:
                self._mistake(_join(path, name), f"it is the former name of {field.encode_name}, which is here as well")
            else:
                members[field.name] = self.value(value, field.type, _join(path, name), depth + 1)
        for name, field in fields.items():
            if field.required and field.name not in members:
                self._mistake(_join(path, name), "it is missing")
        return None if len(self._problems) > before else self._made(kind, members, path)

    def _made(self, kind: inspect.StructType, members: dict[str, Any], path: str) -> Any:
        """Make the struct. Its ``__post_init__`` may refuse values, by rules that no type expresses.

        It raises ValueError, or OptionMistakes with the path of each mistake below the struct.
        """
        try:
            return kind.cls(**members)
        except OptionMistakes as error:
            self._problems += [(f"{path}.{below}" if path else below, message) for below, message in error.problems]
        except ValueError as error:
            self._mistake(path, str(error))
        return None


def _plain(value: Any, kind: inspect.Type, unit: str | None, path: str) -> Any:
    """Return the value as the scalar *kind*. Raises ValueError that says what is expected."""
    if unit is not None and isinstance(value, str):
        number = parse_quantity(value, unit)
        return int(number) if isinstance(kind, inspect.IntType) else number
    if isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            meant = did_you_mean(value, kind.values) if isinstance(value, str) else ""
            raise ValueError(
                f"{_shown(value, kind, path)} is not one of {listed(kind.values)}{meant if meant[:1] == ':' else ''}"
            )
        return value
    if not _fits(value, kind):
        hint = ": write it in quotes" if isinstance(kind, inspect.StrType) and isinstance(value, int | float) else ""
        if isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, str):
            hint = f": write [{_shown(value, kind, path)}]"
        raise ValueError(f"expected {expected(kind, unit)}; found {_shown(value, kind, path)}{hint}")
    return float(value) if isinstance(kind, inspect.FloatType) else value


def _fits(value: Any, kind: inspect.Type) -> bool:
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType | inspect.AnyType)
    wanted = TYPES.get(type(kind))
    return wanted is None or isinstance(value, wanted)


def within(value: Any, kind: inspect.Type) -> Any:
    """Return the value. Raises ValueError if it is outside the range of its type."""
    for name, holds, words in RANGES:
        limit = getattr(kind, name, None)
        if limit is not None and not holds(value, limit):
            raise ValueError(f"{value} is out of range: it has to be {words} {limit:,}")
    if isinstance(kind, inspect.StrType):
        if not (kind.min_length or 0) <= len(value) <= (kind.max_length or LONGEST_TEXT):
            raise ValueError(f"it has to have {kind.min_length or 0} to {kind.max_length or LONGEST_TEXT:,} characters")
        if kind.pattern and not re.search(kind.pattern, value):
            raise ValueError(f"{quoted(value)} does not match {kind.pattern}")
    return value


def bare(kind: inspect.Type) -> tuple[inspect.Type, str | None]:
    """Return the type without its metadata, and the unit in the metadata."""
    unit = None
    while isinstance(kind, inspect.Metadata):
        unit = (kind.extra_json_schema or {}).get(UNIT, unit)
        kind = kind.type
    return kind, unit


def expected(kind: inspect.Type, unit: str | None) -> str:
    """Return in words what values a type allows."""
    if unit is not None:
        return f"{'a time' if unit == 'seconds' else 'a size'} ({EXAMPLES[unit]})"
    if isinstance(kind, inspect.LiteralType):
        return f"one of {listed(kind.values)}"
    if isinstance(kind, inspect.StructType):
        return f"a group of {listed(field.encode_name for field in kind.fields)}"
    return EXPECTED.get(type(kind), "a value")


def listed(names: Iterable[Any]) -> str:
    """Return the names with commas between them."""
    return ", ".join(str(name) for name in names)


def did_you_mean(name: object, known: Iterable[Any]) -> str:
    """Return a hint that names the closest known name, or all known names."""
    import difflib  # noqa: PLC0415 - needed for mistakes only

    names = [str(word) for word in known]
    close = difflib.get_close_matches(str(name)[:100].replace("-", "_"), names, n=1)
    return f": did you mean {close[0]}?" if close else f"; known names are {listed(names)}"


def _shown(value: Any, kind: inspect.Type, path: str) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, dict):
        return "names with values"
    if isinstance(value, list):
        return "a list"
    may_be_secret = isinstance(kind, HAVE_TEXT) and is_secret(path, str(value))
    return WITHHELD if may_be_secret else quoted(str(value))


def _join(path: str, name: str) -> str:
    name = name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) else quoted(name)
    return f"{path}.{name}" if path else name
