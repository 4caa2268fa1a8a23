"""Regular expressions that brokers match against names, confined to the names of a tenant (KIP-848, KIP-1152, KIP-1071).

Brokers compile them with RE2/J and match whole names. ``orders-.*`` of the tenant ``a.`` becomes ``a\\.(?:orders-.*)``. So that
no expression leaves that group, its syntax is read here first: every parenthesis is matched, every class and quotation closed.

"The beginning" is the beginning of the tenant's own name, behind the prefix, where RE2 has no assertion. ``^`` and ``\\A`` are
replaced by an empty group where nothing can come before them; elsewhere they are refused. ``\\b`` and ``\\B`` are refused
where the prefix ends in a word character, as they would then see it.

A refused expression reaches the broker as INVALID, so that the broker answers with its own error.
"""

import re

# One token each, in this order; what matches none is one character
TOKEN = re.compile(
    r"""
    (?P<quoted>\\Q.*?(?:\\E|\Z))
  | (?P<escape>\\(?:[pPx]\{[^}]*\}|.))
  | (?P<class>\[(?:\^|(?!\^))(?:\]|(?!\]))(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
  | (?P<flags>\(\?[a-zA-Z]*(?:-[a-zA-Z]+)?\))
  | (?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z]*(?:-[a-zA-Z]+)?:))?(?!\?))
  | (?P<close>\))
  | (?P<or>\|)
  | (?P<start>\^)
  | (?P<repeat>[*+?]|\{\d+(?:,\d*)?\})
  | (?P<wrong>[\[\\]|\(\?)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
INVALID = "("
WORD_BOUNDARIES = (r"\b", r"\B")
LONGEST = 32_767 - 1_024
START = "(?:(?:))"  # in place of ^
TEXT_START = "(?:(?:(?:)))"  # in place of \A


class Patterns:
    """Confines the expressions of one tenant."""

    def __init__(self, prefix: str) -> None:
        self._head = re.escape(prefix).replace(r"\-", "-") + "(?:"
        self._hides_word_boundary = prefix[-1].isalnum() or prefix[-1] == "_"

    def to_broker(self, pattern: str) -> str:
        """Return the expression for the broker; an empty one means none and stays so."""
        if not pattern:
            return pattern
        inner = self._read(pattern)
        return INVALID if inner is None else f"{self._head}{inner})"

    def to_client(self, pattern: str) -> str | None:
        """Return the expression that the client gave; None: it is not of this tenant."""
        if not pattern:
            return pattern
        if not (pattern.startswith(self._head) and pattern.endswith(")")):
            return None
        inner = pattern[len(self._head) : -1]
        return inner.replace(TEXT_START, r"\A").replace(START, "^")

    def _read(self, pattern: str) -> str | None:
        """Return the expression in a form that may stand inside a group; None if it is refused."""
        if len(pattern) > LONGEST:
            return None
        out: list[str] = []
        groups = _Groups()
        for token in TOKEN.finditer(pattern):
            text = self._rewritten(token.lastgroup, token[0])
            if text is None or not groups.follow(token.lastgroup, text):
                return None
            out.append(text)
        return "".join(out) if groups.are_closed else None

    def _rewritten(self, kind: str | None, text: str) -> str | None:
        """Return a token in a form that may stand behind a prefix; None if there is none."""
        if kind == "wrong" or (text in WORD_BOUNDARIES and self._hides_word_boundary):
            return None
        if kind == "quoted" and not (text.endswith(r"\E") and len(text) >= len(r"\Q\E")):
            return text + r"\E"  # the quotation would go on behind the group
        return {"^": START, r"\A": TEXT_START}.get(text, text)


class _Groups:
    """Follows the groups of an expression, and whether anything can have been matched before a token."""

    def __init__(self) -> None:
        self._is_first = True  # nothing can have been matched
        self._was_first = [True]  # the same at the beginning of each open group; the first is the whole

    @property
    def are_closed(self) -> bool:
        return len(self._was_first) == 1

    def follow(self, kind: str | None, text: str) -> bool:
        """Take the next token; return False if it may not stand here."""
        match kind:
            case "open":
                self._was_first.append(self._is_first)
            case "close":
                self._was_first.pop()
                self._is_first = False
            case "or" if self._was_first:
                self._is_first = self._was_first[-1]
            case "escape" | "start" if text in (START, TEXT_START):
                return self._is_first
            case "escape" | "class" | "quoted" | "other":
                self._is_first = False
        return bool(self._was_first)
