"""Write the members of ApiKey and ErrorCode into their modules, from the same jars as facts.txt."""

import re
from pathlib import Path

from kproxy.protocol.facts import Facts, snake_case

PROTOCOL = Path(__file__).parent.parent / "protocol"
API_KEYS = PROTOCOL / "api_keys.py"
ERROR_CODES = PROTOCOL / "error_codes.py"


def api_members(facts: Facts) -> list[tuple[str, int]]:
    """Return the members of ApiKey, as ``("LIST_OFFSETS", 2)``, ascending by number."""
    return [(snake_case(api.name).upper(), key) for key, api in sorted(facts.apis.items())]


def error_members(facts: Facts) -> list[tuple[str, int]]:
    """Return the members of ErrorCode, as ``("NOT_LEADER_OR_FOLLOWER", 6)``, ascending by number."""
    return sorted(((error.name, error.code) for error in facts.errors), key=lambda member: member[1])


def with_members(source: str, members: list[tuple[str, int]]) -> str:
    """Return the text of a module in which *members* replace the members of its IntEnum; the rest is unchanged."""
    lines = "".join(f"    {name} = {number}\n" for name, number in members)
    return re.sub(r"(?:^    [A-Z][A-Z0-9_]* = -?\d+\n)+", lines, source, count=1, flags=re.MULTILINE)


def written_enums(facts: Facts) -> dict[Path, str]:
    """Return the text of both modules for *facts*, by path."""
    return {
        path: with_members(path.read_text(encoding="utf-8"), members)
        for path, members in ((API_KEYS, api_members(facts)), (ERROR_CODES, error_members(facts)))
    }
