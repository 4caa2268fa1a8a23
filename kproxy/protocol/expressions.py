"""Compile CEL expressions of conditions, and check them for unknown names and functions; the caller says which names exist.

All conditions are CEL (common-expression-language): ``--where`` of the decoded log, rules of filters.

``check_types`` finds comparisons that can never hold, because the two sides have different types. For CEL, ``apiKey == "3"`` is
no mistake: values of different types are not equal, so it is false for every exchange, which is never what was meant. Comparisons
of a field with a literal are checked: of a field of the vocabulary, or of an element of one of its lists, as in
``errors.exists(e, e.code == "6")``. So is a field in place of a condition, as in ``errors && apiKey == 3``, never true.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from kproxy.errors import did_you_mean
from kproxy.protocol.vocabulary import ALIASES, ELEMENTS, VOCABULARY, WORDS, FieldType

# cel lists names that macros bind (the t of list.exists(t, ...)) among the variables
BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
FUNCTIONS = {
    *("size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
    *("string", "int", "uint", "double", "bytes", "duration", "timestamp"),
    *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    *("has", "all", "exists", "exists_one", "map", "filter"),
}
IN_CEL = {  # what other languages write -> CEL
    **{"=": "==", "<>": "!=", "and": "&&", "or": "||", "not": "!", "is": "==", "&": "&&", "|": "||"},
    **{"=~": "matches(text, pattern)", "like": "matches(text, pattern)"},
}
BARE = re.compile(r"\s*(?:$|[-)\],]|&&|\|\|)")  # what follows a word that may be meant as a text
TOKEN = re.compile(r"\w+|[^\w\s]+")
TEXT = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\''
COLUMN = re.compile(r"(?:line (\d+), )?column (\d+)")
MOST = (1 << 63) - 1  # the largest integer in CEL
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
POSITION = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")


class Expression:
    """A compiled expression.

    Args:
        text: the expression, in CEL.
        known: the names that it may use.
        about: what the expression is, as the first word of every message.
        aliases: former spellings of names that it may use as well; ``names`` and ``evaluate`` have the names of today.

    Raises ValueError, one sentence, when it is malformed or names what does not exist.
    """

    def __init__(self, text: str, known: Collection[str], about: str, aliases: Mapping[str, str] = NO_ALIASES) -> None:
        self.text = text
        self._program = _compile(text, about)
        names = _check_names(self._program, text, known, about, aliases)
        self._aliases = {name: aliases[name] for name in names if name in aliases}
        self.names = sorted({aliases.get(name, name) for name in names})
        _check_functions(self._program, about)

    def evaluate(self, values: dict[str, Any]) -> Any:
        """Return the value. Raises LookupError, TypeError, ArithmeticError, RuntimeError or ValueError, depending on the text."""
        if self._aliases:
            values = values | {alias: values[name] for alias, name in self._aliases.items() if name in values}
        return self._program.execute(values)


class Wrong(Struct, frozen=True):
    """An error in an expression, for display next to the expression's text."""

    sentence: str  # without the text
    column: int | None  # from 1; None if the error has no place
    length: int | None  # in characters


def located(message: str, text: str, about: str) -> Wrong:
    """Return the sentence and the place in an error message of Expression, without the expression's text.

    Args:
        message, about: see Expression.
        text: the expression.
    """
    sentence = message.replace(repr(text), "", 1).removeprefix(about).lstrip(" :")
    match = COLUMN.search(sentence)
    column = _place(text, match) if match else None
    sentence = re.sub(r"^is wrong at (?:line \d+, )?column \d+: ", "", sentence)
    sentence = re.sub(r" \(column \d+\)", "", sentence)
    if column is None:
        name = re.match(r"there is no function '(\w+)'|(\w+(?:\(\w+\)|\.size\(\))?) is ", sentence)
        column = text.find(name[1] or name[2]) + 1 or None if name else None
    return Wrong(sentence, column, _length(text, column))


def _place(text: str, match: re.Match[str]) -> int:
    """Return the offset in the text, from 1, of the line and column in *match*."""
    lines = text.split("\n")[: int(match[1] or 1) - 1]
    return sum(len(line) + 1 for line in lines) + int(match[2])


def _length(text: str, column: int | None) -> int | None:
    """Return the length of the word at a column."""
    if column is None:
        return None
    match = re.match(r"\w+|.", text[column - 1 :], re.DOTALL)
    return len(match[0]) if match else 1


def _explain_place(expression: str, line: int, column: int) -> str:
    """Return why an expression is wrong at a place (both counted from 1), with what CEL has for a word of another language."""
    lines = expression.splitlines()
    tokens = list(TOKEN.finditer(lines[line - 1] if line <= len(lines) else ""))
    at = next((n for n, token in enumerate(tokens) if token.end() >= column), len(tokens))
    for token in tokens[max(at - 1, 0) : at + 1][::-1]:  # cel may report the place of the next word
        if replacement := IN_CEL.get(token[0].lower()):
            return f"write {replacement} for {token[0]}"
    if at < len(tokens) and (token := tokens[at])[0][0] in "\"'" and expression.count(token[0][0]) % 2:
        return f"the text that begins with {token[0][0]} has no end"
    if at < len(tokens) and (digits := tokens[at][0]).isdecimal() and int(digits[:30]) > MOST:
        return f"{digits[:30]} is beyond integers of 64 bits, which end at {MOST}"
    return f"{tokens[at][0]} cannot be here" if at < len(tokens) else "it cannot be read"


def _compile(expression: str, about: str) -> Any:
    if not expression.strip():
        raise ValueError(f"{about} is empty; give a condition, for instance 'apiKey == 3'")
    import cel  # noqa: PLC0415 - it takes a tenth of a second, and most runs have no condition

    try:
        return cel.compile(expression)
    except ValueError as error:
        match = POSITION.search(str(error))
        if match is None:
            raise ValueError(f"{about} {expression!r} is not a CEL expression: {first_sentence(error)}") from error
        line, column, what = match.groups()
        place = f"column {column}" if line == "1" else f"line {line}, column {column}"
        what = "it ends too early" if "'<EOF>'" in what else _explain_place(expression, int(line), int(column))
        raise ValueError(f"{about} {expression!r} is wrong at {place}: {what}") from error


def _check_names(
    program: Any, expression: str, known: Collection[str], about: str, aliases: Mapping[str, str]
) -> set[str]:
    """Return the names that the expression uses. Raises ValueError, with the closest names, for one that is not known."""
    names = set(program.variables()) - set(BOUND.findall(expression))
    for name in sorted(names - set(known) - set(aliases)):
        meant = [ALIASES[name]] if ALIASES.get(name) in known else known
        hint = did_you_mean(name, meant, "kproxy help conditions lists the names")
        at = _begin_of(name, expression)
        if BARE.match(expression, at + len(name)) and not any(other.lower() == name.lower() for other in known):
            hint = f"a text stands in quotes; {hint}"
        raise ValueError(f"{about} {expression!r}: nothing is called {name!r} (column {at + 1}); {hint}")
    return names


def _begin_of(name: str, expression: str) -> int:
    """Return where *name* first occurs as a word that is not inside a text or a field of something."""
    words = re.finditer(rf"{TEXT}|(?<![\w.]){re.escape(name)}(?!\w)", expression)
    return next((match.start() for match in words if match[0] == name), expression.index(name))


def _check_functions(program: Any, about: str) -> None:
    """Raise ValueError for a function that CEL lacks: cel itself reports it only when it is called."""
    for name in program.functions():
        if name.isidentifier() and name not in FUNCTIONS:
            hint = did_you_mean(name, sorted(FUNCTIONS))
            raise ValueError(f"{about}: there is no function {name!r} in CEL; {hint}")


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's message."""
    return re.split(r"\. |\n", str(error), maxsplit=1)[0]


_BINDING = re.compile(
    rf"\b({'|'.join(ELEMENTS)})\s*\.\s*(?:all|exists|exists_one|existsOne|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,"
)
_TEXT_IN = {"errors": "errorNames"}  # list of objects -> the list of texts that was meant

_TOKEN = re.compile(
    r"""
    (?P<text>[rb]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    | (?P<number>(?:\d+\.?\d*(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+)u?)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator>[=!<>]=|[<>])
    | (?P<other>\S)
    """,
    re.VERBOSE,
)
_LITERAL_TYPES: dict[str, FieldType] = {"text": "text", "number": "number", "truth": "truth"}
_OPERATORS = {"==", "!=", "<", "<=", ">", ">=", "in"}
_MORE = {".", "[", "(", "+", "-", "*", "/", "%", "?"}  # an operand next to one of these is part of a larger one
_JOINTS = {"&", "|", "!"}
_TRUTH_OF: dict[FieldType, str] = {  # what is probably meant by a field in place of a condition
    "number": "{0} > 0",
    "text": "{0} != null",
    "object": "{0} != null",
    "texts": "size({0}) > 0",
    "objects": "size({0}) > 0",
}
Token = tuple[str, str]  # kind, text
Types = dict[str, FieldType]  # types of fields, without names that a macro binds as variables
Elements = dict[str, str]  # variable of a macro -> the list whose elements it stands for


def check_types(expression: str, about: str) -> None:
    """Check that no field is compared with a literal of another type, or stands where true or false belongs.

    Args:
        expression: a CEL expression that compiles.
        about: what the expression is; the message begins with it.

    Raises ValueError, one sentence with what to write instead.
    """
    tokens = [(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(expression)]
    bound = set(BOUND.findall(expression))
    types = {name: field.type for name, field in VOCABULARY.items() if name not in bound}
    elements = {variable: owner for owner, variable in _BINDING.findall(expression)}
    for name, kind, literal in _comparisons(tokens, types, elements):
        literal_type = _LITERAL_TYPES[literal[0]]
        if literal_type != kind:
            raise ValueError(
                f"{about} {expression!r}: {name} is {WORDS[kind]} and {literal[1]} is {WORDS[literal_type]}, "
                f"which cannot be compared{_hint(name, kind, literal)}"
            )
    for name, kind in _conditions(tokens, types):
        raise ValueError(
            f"{about} {expression!r}: {name} is {WORDS[kind]}, not true or false; write {_TRUTH_OF[kind].format(name)}"
        )


def _conditions(tokens: list[Token], types: Types) -> Iterator[tuple[str, FieldType]]:
    """Yield each field that is a whole operand of &&, ||, ! or ?, or the whole expression, and is not true or false."""
    texts = ["", "", *(text for _, text in tokens), ""]
    for at, name in enumerate(texts):
        if types.get(name, "truth") == "truth" or name == "trailing":
            continue
        left, right = at - 1, at + 1
        while texts[left] == "(" and texts[right] == ")" and not texts[left - 1].isidentifier():
            left, right = left - 1, right + 1
        before, after = texts[left], texts[right]
        joined = before in _JOINTS or after in {*_JOINTS, "?"} or before == after == ""
        if joined and before in {*_JOINTS, "(", ""} and after in {*_JOINTS, "?", ")", ""}:
            yield name, types[name]


def _comparisons(tokens: list[Token], types: Types, elements: Elements) -> Iterator[tuple[str, FieldType, Token]]:
    """Yield each field that is compared with a literal: its name, its type and the literal."""
    padded = [("other", ""), ("other", ""), ("other", ""), *tokens, ("other", ""), ("other", "")]
    for at in range(3, len(padded) - 2):
        if padded[at][1] not in _OPERATORS:
            continue
        left, right, after = padded[at - 1], padded[at + 1], padded[at + 2]
        if (
            left[1] == ")"
            and after[1] not in _MORE
            and (sized := _sized(padded, at - 1))
            and (literal := _literal(right))
        ):
            yield sized, "number", literal
        if right[1] == "[" and padded[at][1] == "in":
            right, after = after, ("other", "")
        if after[1] in _MORE:
            continue
        kind, literal = _type(padded, at - 1, types, elements), _literal(right)
        if kind is not None and literal is not None:
            yield left[1], kind, literal
        kind, literal = types.get(right[1]), _literal(left)
        if padded[at][1] == "in" and kind in ("texts", "object"):
            kind = "text" if kind == "texts" else None  # the type of an element; an object may have any keys
        if kind is not None and literal is not None and padded[at - 2][1] not in _MORE - {"("}:
            yield right[1], kind, literal


def _type(tokens: list[Token], at: int, types: Types, elements: Elements) -> FieldType | None:
    """Return the type of the operand that ends at a token; None if it is not known."""
    name, before = tokens[at][1], tokens[at - 1][1]
    if tokens[at][0] != "name":
        return None
    if before == ".":
        variable = tokens[at - 2][1]
        if variable not in elements or tokens[at - 3][1] == ".":
            return None
        known = ELEMENTS[elements[variable]].get(name)
        return None if known is None else known[0]
    return None if before in _MORE - {"("} else types.get(name)


def _sized(tokens: list[Token], end: int) -> str | None:
    """Return ``size(x)`` or ``x.size()`` if that ends at the bracket at *end*, else None."""
    texts = [token[1] for token in tokens[max(end - 4, 0) : end + 1]]
    if texts[1:3] == ["size", "("] and tokens[end - 1][0] == "name" and texts[0] not in _MORE - {"("}:
        return f"size({texts[3]})"
    if (
        texts[1:] == [".", "size", "(", ")"]
        and tokens[end - 4][0] == "name"
        and tokens[end - 5][1] not in _MORE - {"("}
    ):
        return f"{texts[0]}.size()"
    return None


def _literal(token: Token) -> Token | None:
    """Return the token with its type if it is a literal. Null does not count, as any field may be null."""
    if token[0] in ("text", "number"):
        return token
    return ("truth", token[1]) if token[1] in ("true", "false") else None


def _hint(name: str, kind: FieldType, literal: Token) -> str:
    """Return what to write instead, as the end of the sentence; "" if that is unknown."""
    if kind == "texts":
        return f"; write {literal[1]} in {name}" if literal[0] == "text" else ""
    if kind == "objects":
        return f"; write {literal[1]} in {_TEXT_IN[name]}" if name in _TEXT_IN and literal[0] == "text" else ""
    if name == "trailing":
        return "; name a side, as in trailing.request > 0"
    text = literal[1].strip("rb").strip("'\"")
    if kind == "number" and literal[0] == "text":
        return f"; write {text}" if re.fullmatch(r"\d+(\.\d+)?", text) else ""
    return f'; write "{text}"' if kind == "text" else ""
