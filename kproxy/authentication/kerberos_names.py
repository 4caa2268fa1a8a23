"""Short names of Kerberos principals, by the rules of Kafka's ``sasl.kerberos.principal.to.local.rules``.

    RULE:[1:$1@$0](.*@CORP.EXAMPLE.COM)s/@.*//,RULE:[2:$1],DEFAULT

A rule of [n:format] is for principals of n components, as alice/admin of 2; in the format $0 is the realm, $1 the first
component. What it gives has to match the expression in parentheses; then s/from/to/g replaces in it, and L or U at the end
changes its case. DEFAULT is for principals of the own realm, and gives their first component. The first rule that fits gives the
name; where none does, or the name would still have a / or @, the principal is refused (KerberosShortNamer, KerberosRule).
"""

import re
from typing import NamedTuple

from kproxy.authentication.certificates import GROUP, JAVA_NAME
from kproxy.errors import UsageError

RULE = re.compile(
    r"(DEFAULT)|RULE:\[(\d{1,2}):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g?))?/?([LU]?)", re.ASCII
)
PRINCIPAL = re.compile(r"([^/@\\]+)(?:/([^/@\\]+))?@([^/@\\]+)")
ANONYMOUS_REALM = "WELLKNOWN:ANONYMOUS"  # RFC 8062: of tickets for anybody


class Rule(NamedTuple):
    """One rule; components 0: DEFAULT."""

    components: int
    form: str = ""
    match: re.Pattern[str] | None = None
    replaced: re.Pattern[str] | None = None
    replacement: str = ""
    is_global: bool = False
    case: str = ""

    def name_of(self, parts: list[str], own_realm: str) -> str | None:
        """Return the name of a principal (realm, then components); None if the rule does not fit."""
        if self.components == 0:
            return parts[1] if parts[0] == own_realm else None
        if self.components != len(parts) - 1:
            return None
        name = GROUP.sub(lambda number: parts[int(number[1])], self.form)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.replaced is not None:
            name = self.replaced.sub(self._replacement, name, count=0 if self.is_global else 1)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replacement(self, found: re.Match[str]) -> str:
        return GROUP.sub(lambda group: found[int(group[1])] or "", self.replacement)


def parse_rules(text: str) -> list[Rule]:
    """Read rules, separated by commas. Raises UsageError."""
    return [_parse_rule(number, one.strip()) for number, one in enumerate(text.split(","), 1)]


def _parse_rule(number: int, text: str) -> Rule:
    parts = RULE.fullmatch(text)
    if parts is None:
        raise UsageError(f"rule {number} is none: write RULE:[n:format](pattern)s/from/to/g, with L or U, or DEFAULT")
    if parts[1]:
        return Rule(0)
    components, form = int(parts[2]), parts[3]
    if not 1 <= components <= 2 or any(int(group) > components for group in GROUP.findall(form)):
        raise UsageError(f"rule {number}: a principal has 1 or 2 components, and its format no higher number")
    match, replaced = (_pattern(number, pattern) for pattern in (parts[4], parts[5]))
    replacement = parts[6] or ""
    if replaced is not None and any(int(group) > replaced.groups for group in GROUP.findall(replacement)):
        raise UsageError(f"rule {number}: the replacement names a group that its pattern does not have")
    return Rule(components, form, match, replaced, replacement, parts[7] == "g", parts[8])


def _pattern(number: int, text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(JAVA_NAME.sub("(?P<", text))
    except re.error as error:
        raise UsageError(f"the pattern of rule {number} is none: {error}") from None


def short_name(principal: str, rules: list[Rule], own_realm: str) -> str | None:
    """Return the name of a principal such as alice/admin@EXAMPLE.COM; None if it has none by the rules."""
    found = PRINCIPAL.fullmatch(principal)
    if found is None or found[3] == ANONYMOUS_REALM:
        return None
    parts = [found[3], found[1], *([found[2]] if found[2] else [])]
    name = next((name for rule in rules if (name := rule.name_of(parts, own_realm)) is not None), None)
    return None if not name or "/" in name or "@" in name else name
