"""Names of clients by their TLS certificates, with the rules of Kafka's ``ssl.principal.mapping.rules`` (KIP-371).

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1/L,DEFAULT

The first rule whose pattern matches the whole subject (RFC 2253) gives the name: its replacement, in which $1 is the first group,
in lower case with L, in upper case with U. DEFAULT is the subject itself. Where no rule matches, the certificate names nobody
(SslPrincipalMapper).
"""

import re
from typing import NamedTuple

from kproxy.errors import UsageError

RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:[,\n]|$)")
GROUP = re.compile(r"\$(\d)")
JAVA_NAME = re.compile(r"\(\?<(?=[A-Za-z])")  # a named group, as Java writes it


class Rule(NamedTuple):
    """One rule; pattern None: DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def name_of(self, subject: str) -> str | None:
        """Return the name, None if the rule does not match."""
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = GROUP.sub(lambda group: _group(found, int(group[1]), group[0]), self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def _group(found: re.Match[str], number: int, text: str) -> str:
    """Return a group; a $ before a number that the pattern does not have stands for itself."""
    return (found[number] or "") if number <= (found.re.groups) else text


def parse_rules(text: str) -> list[Rule]:
    """Read rules. Raises UsageError."""
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        match = RULE.match(text, at)
        if match is None or match.end() == at:
            raise UsageError(
                f"it is no rule from character {at + 1} on: write RULE:pattern/replacement/, with L or U, or DEFAULT"
            )
        try:
            pattern = None if match[1] else re.compile(JAVA_NAME.sub("(?P<", match[2]))
        except re.error as error:
            raise UsageError(f"the pattern of rule {len(rules) + 1} is none: {error}") from None
        rules.append(Rule(pattern, match[3] or "", match[4] or ""))
        at = match.end()
    return rules


def name_of(subject: str, rules: list[Rule]) -> str | None:
    """Return the name of a certificate's subject; None if no rule matches, or gives an empty name."""
    return next((name for rule in rules if (name := rule.name_of(subject)) is not None), None) or None
