"""Free text in a filter: words that are no CEL find the exchanges that contain them. They become CEL before all else.

A filter is CEL conditions joined by ``&&``. One of them may be text in place of a condition:

    orders                               exchanges with "orders" in a name, address or error, in any case
    billing 10.0.0.7                     with both words
    "two words" && latencyMs > 20        with that text, and slow

Text is words without operators, quotes or brackets that are no condition on known names, or one string literal. It is searched
in the API's name, client id, addresses, topics, groups, user, error names, and why something is unanswered or undecoded.
"""

import json
import re

from kproxy.errors import OptionError
from kproxy.output.where import Where
from kproxy.page.filtering.tokens import tokens_of
from kproxy.protocol.error_codes import ErrorCode

WORDS = re.compile(r"[\w.:/@#%+*~$-]+(?:\s+[\w.:/@#%+*~$-]+)*")
STRING = re.compile(r'"[^"\\]*"|\'[^\'\\]*\'')
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TEXTS = ("apiName", "clientId", "client", "broker", "principal", "unanswered", "undecoded")
LISTS = ("topics", "groups")


def as_cel(condition: str) -> str:
    """Return a filter with its free text as CEL; what has none is returned as it is."""
    parts = _conjuncts(condition)
    written = [part if text is None else " && ".join(map(_having, text)) for part, text in parts]
    return condition if all(text is None for _, text in parts) else " && ".join(part.strip() for part in written)


def searched_texts(condition: str) -> list[str]:
    """Return the texts that a filter searches for."""
    return [text for _, texts in _conjuncts(condition) for text in texts or ()]


def _conjuncts(condition: str) -> list[tuple[str, list[str] | None]]:
    """Return the conditions that ``&&`` joins outside of brackets, each with the texts that it searches for; None: it is CEL."""
    depth, start, parts = 0, 0, list[str]()
    for token in tokens_of(condition):
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "||" and depth <= 0:
            return [(condition, _texts(condition))]
        if token.text == "&&" and depth <= 0:
            parts.append(condition[start : token.at])
            start = token.at + len(token.text)
    parts.append(condition[start:])
    return [(part, _texts(part)) for part in parts]


def _texts(part: str) -> list[str] | None:
    text = part.strip()
    if STRING.fullmatch(text):
        return [text[1:-1]] if len(text) > 2 else None
    if not WORDS.fullmatch(text) or NUMBER.fullmatch(text):
        return None
    return None if _is_cel(text) else text.split()


def _is_cel(text: str) -> bool:
    try:
        Where(text)
    except OptionError:
        return False
    return True


def _having(text: str) -> str:
    pattern = json.dumps("(?i)" + re.sub(r"([^\w\s])", r"\\\1", text), ensure_ascii=False)
    parts = [f"{name}.matches({pattern})" for name in TEXTS]
    parts += [f"{name}.exists(x, x.matches({pattern}))" for name in LISTS]
    codes = [int(code) for name, code in ErrorCode.__members__.items() if text.upper() in name and code]
    parts += [f"errors.exists(x, x.code in {codes})"] if codes else []
    return f"({' || '.join(parts)})"
