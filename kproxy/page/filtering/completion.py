"""Complete a condition at the cursor: names, functions, fields of bodies, values that the source has.

The condition is a filter, or that of a breakpoint, which can use other fields (kproxy.protocol.vocabulary).
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kproxy.filters.breakpoints.breakpoint import Breakpoint, stoppable_apis
from kproxy.output.times import counted
from kproxy.page.columns import COLUMNS, IN_FILTERS
from kproxy.page.filtering.parts import Token, tokens_of
from kproxy.page.store import Store
from kproxy.page.work import Work
from kproxy.protocol import request_message, response_message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.vocabulary import ELEMENTS, Scope, VocabularyField, fields_in, names_of_type

LISTS = names_of_type("texts") & COLUMNS.keys()  # their values are completed from the exchanges
MOST = 50  # choices
MOST_VALUES = 30
LONGEST = 4_000
WORD = re.compile(r"[A-Za-z_]\w*\Z")
OPEN_TEXT = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\Z""")  # a literal that is being written
COMPARED = re.compile(r"([A-Za-z_]\w*)\s*(?:==|!=|in\s*\[[^\]]*)\s*\Z")
CONTAINED = re.compile(rf"""[^"']*["']\s*in\s+({"|".join(sorted(LISTS))})\b""")
API = r"""\bapiName\s*==\s*["'](\w+)["']"""
AFTER_VALUE = re.compile(r"""[\w"')\]]\Z""")  # there only an operator can follow
OF_TEXTS = {
    "contains": "whether it has this text in it",
    "startsWith": "whether it begins so",
    "endsWith": "whether it ends so",
    "matches": "whether a regular expression (RE2) matches a part of it",
    "size": "number of its characters",
}
OF_LISTS = {
    "exists": "exists(e, condition): whether any element meets it",
    "all": "all(e, condition): whether all elements meet it",
    "filter": "filter(e, condition): the elements that meet it",
    "size": "number of its elements",
}
FUNCTIONS = {"size": "size(x): of a text or a list", "has": "has(x.y): whether there is such a field"}


class Vocabulary(Struct, frozen=True):
    """The fields that a kind of condition can use."""

    scope: Scope
    completes_values: frozenset[str]  # fields whose values are completed from the exchanges
    without: tuple[str, ...] = ()  # types of fields that bodies lack

    @property
    def fields(self) -> dict[str, VocabularyField]:
        return fields_in(self.scope)


IN_BREAKPOINTS = frozenset({"apiName", "clientId", "client", "principal", *LISTS})
FILTER = Vocabulary(Scope.LOG, frozenset(COLUMNS))
VOCABULARIES = {
    "filter": FILTER,
    "request": Vocabulary(Scope.REQUEST, IN_BREAKPOINTS, ("bytes", "records")),
    "response": Vocabulary(Scope.RESPONSE, IN_BREAKPOINTS, ("bytes", "records")),
}


class Choice(Struct, frozen=True):
    """A text that can be written at the cursor."""

    text: str
    meaning: str


def complete(store: Store, work: Work, text: str, cursor: int, of: str = "filter") -> dict[str, Any]:
    """Return the answer of /page/api/complete; *cursor* and its places count UTF-16 units, as browsers do. Raises Cancelled.

    *of* is filter; or request or response, for the condition of a breakpoint.
    """
    before = text.encode("utf-16-le", "surrogatepass")[: 2 * max(cursor, 0)].decode("utf-16-le", "replace")[:LONGEST]
    start, choices = _choices(store, work, before, text, VOCABULARIES.get(of, FILTER))
    at = len(before[:start].encode("utf-16-le", "surrogatepass")) // 2
    quote, after = before[start : start + 1], text[len(before) :]
    # The rest of the literal, with its closing quote
    rest = re.match(rf"[^\s\"']*{quote}", after) if quote in ("'", '"') else None
    to = cursor + (len(rest[0].encode("utf-16-le", "surrogatepass")) // 2 if rest else 0)
    return {"from": at, "to": to, "choices": [{"text": one.text, "meaning": one.meaning} for one in choices[:MOST]]}


def _choices(store: Store, work: Work, before: str, text: str, words: Vocabulary) -> tuple[int, list[Choice]]:
    """Return where the word or literal at the cursor begins, and what it can become."""
    tokens = tokens_of(before)
    quoted = OPEN_TEXT.search(before) if _is_open(tokens) else None
    if quoted is not None:
        compared = COMPARED.search(before[: quoted.start()])
        if compared is None:
            return quoted.start(), list(_elements(store, work, quoted[2], text[len(before) :]))
        return quoted.start(), _literals(store, work, words, _owner(compared[1], before), quoted[2])
    word = WORD.search(before)
    start, beginning = (word.start(), word[0]) if word else (len(before), "")
    if AFTER_VALUE.search(before[:start]):
        return start, []
    prefix = before[:start].rstrip()
    if prefix.endswith("."):
        known = dict(_members(prefix[:-1].rstrip(), before, words))
    elif (compared := COMPARED.search(prefix)) is not None and not beginning:
        return start, _literals(store, work, words, _owner(compared[1], before), "")
    else:
        known = {field.name: f"{field.type}: {field.meaning}" for field in words.fields.values()} | FUNCTIONS
    low = beginning.lower()
    starting = [name for name in known if name.lower().startswith(low)]
    inside = [name for name in known if low in name.lower() and name not in starting]
    return start, [Choice(name, known[name]) for name in starting + inside if name != beginning]


def _elements(store: Store, work: Work, part: str, after: str) -> Iterator[Choice]:
    """Complete a text that is compared with nothing yet: yield conditions on list elements that contain it."""
    contained = CONTAINED.match(after)  # whether "in LIST" follows the text already
    for name in LISTS if contained is None else [contained[1]]:
        for value, count in _values(store, work, name, part):
            yield Choice(f'"{value}"' if contained else f'"{value}" in {name}', counted(count, "exchange"))


def _owner(name: str, before: str) -> str:
    """Return the list whose elements a macro has bound to the name; else the name."""
    bound = re.search(rf"([A-Za-z_]\w*)\s*\.\s*\w+\s*\(\s*{name}\s*,", before)
    return bound[1] if bound and bound[1] in LISTS else name


def _is_open(tokens: tuple[Token, ...]) -> bool:
    """Return whether a text literal has begun and not ended: then its quote is a token of its own."""
    return any(token.kind == "sign" and token.text in "\"'" for token in tokens)


def _members(owner: str, before: str, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield what can be written after ``owner.``, each with its meaning."""
    last = WORD.search(owner)
    name = last[0] if last else ""
    path = _path(owner)
    kind = words.fields[name].type if name in words.fields else ""
    # A macro may have bound the name to the elements of a list: ``errors.exists(name, ``
    of = next((of for of in ELEMENTS if name and re.search(rf"\b{of}\s*\.\s*\w+\s*\(\s*{name}\s*,", before)), None)
    if of is not None:
        yield from ((element, meaning) for element, (_, meaning) in ELEMENTS[of].items())
    elif kind in ("texts", "objects") and path == [name]:
        yield from OF_LISTS.items()
    elif path and path[0] in ("request", "response"):
        yield from _fields(path, re.search(API, before), words)
    elif kind == "text":
        yield from OF_TEXTS.items()
    else:
        yield from (OF_TEXTS | OF_LISTS).items()


def _path(owner: str) -> list[str]:
    """``request.topics[0].name`` -> request, topics, name."""
    dotted = re.search(r"((?:[A-Za-z_]\w*(?:\[\d+\])?\.)*[A-Za-z_]\w*(?:\[\d+\])?)\Z", owner)
    return [re.sub(r"\[\d+\]", "", part) for part in dotted[1].split(".")] if dotted else []


def _fields(path: list[str], api: re.Match[str] | None, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield the fields of bodies below a path: those of the API that the filter names, or of all APIs."""
    of: dict[str, list[str]] = {}
    is_array = False
    for key, known in facts().apis.items():
        if api is not None and known.name != api[1]:
            continue
        message = request_message(key) if path[0] == "request" else response_message(key)
        for layout in message.layouts if message is not None else ():
            fields: tuple[Field, ...] = layout.fields
            for step in path[1:]:
                inner = next((one for one in fields if one.json_name == step), None)
                fields = inner.fields if inner is not None else ()
                is_array |= inner is not None and inner.is_array
            for one in fields:
                if one.type in words.without:
                    continue
                apis = of.setdefault(one.json_name, [])
                if known.name not in apis:
                    apis.append(known.name)
    if is_array:
        yield from OF_LISTS.items()
    for name in sorted(of, key=lambda name: (-len(of[name]), name)):
        yield name, f"of {', '.join(of[name][:3])}" + (f" and {len(of[name]) - 3} more" if len(of[name]) > 3 else "")


def _literals(store: Store, work: Work, words: Vocabulary, name: str, part: str) -> list[Choice]:
    """Return values of a name as literals: those of exchanges, the most frequent first; for a breakpoint other APIs too."""
    column = name if name in words.completes_values else ""
    choices = [Choice(f'"{value}"', counted(count, "exchange")) for value, count in _values(store, work, column, part)]
    if words is FILTER or name != "apiName":
        return choices
    seen = {one.text for one in choices}
    others = (f'"{api}"' for api in stoppable_apis(Breakpoint("true")) if part.lower() in api.lower())
    return choices + [Choice(text, "") for text in others if text not in seen]


def _values(store: Store, work: Work, name: str, part: str) -> list[tuple[str, int]]:
    """Return the values of a column of texts, or of lists of texts, that contain a text, the most frequent first."""
    column = COLUMNS.get(name)
    if column is None or column.type not in ("text", "texts") or name not in IN_FILTERS:
        return []
    value = column.sql if column.type == "text" else f"unnest({column.sql})"
    with store.cursor() as cursor, work.ended_by(cursor.interrupt):
        rows = cursor.execute(
            f"SELECT v, count(*) FROM (SELECT {value} AS v FROM {store.rows([name])}) WHERE v IS NOT NULL"
            f" AND contains(lower(v), lower($part)) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_VALUES}",
            {"part": part},
        ).fetchall()
    return [(_as_literal(value), count) for value, count in rows]


def _as_literal(value: str) -> str:
    """Return a value as it is written between the quotes of a CEL literal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped)
