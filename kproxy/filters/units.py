"""Numbers with a unit: "500ms", "10s", "5m", "1h"; "64KiB", "16MiB", "10MB"."""

import re

from kproxy.filters.withholding import without_secrets

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
BYTES: dict[str, float] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
UNITS: dict[str, dict[str, float]] = {"seconds": SECONDS, "bytes": BYTES}
EXAMPLES = {"seconds": '10, "500ms", "10s", "5m" or "1h"', "bytes": '65536, "64KiB", "16MiB" or "1GiB"'}
NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s?([A-Za-z]{1,3})?", re.ASCII)


def parse_quantity(text: str, unit: str) -> float:
    """Parse *text* as a number of *unit* ("seconds" or "bytes"). Raises ValueError that shows how to write one."""
    match = NUMBER.fullmatch(text.strip())
    factor = UNITS[unit].get(match[2]) if match and match[2] else 1.0
    if match is None or factor is None:
        raise ValueError(f"{quoted(text)} is not a number of {unit}: write {EXAMPLES[unit]}")
    value = float(match[1]) * factor
    if unit == "bytes" and value != int(value):
        raise ValueError(f"{quoted(text)} is not a whole number of bytes")
    return value


def render_quantity(value: float, unit: str) -> str:
    """Render a number of *unit* as people write it: 104857600 bytes as 100MiB, 3600 seconds as 1h."""
    for name in reversed(("ms", "s", "m", "h") if unit == "seconds" else ("B", "KiB", "MiB", "GiB")):
        count = value / UNITS[unit][name]
        if count >= 1 and count == int(count):
            return f"{int(count)}{name}"
    return f"{value:.15g}"


def unit_pattern(unit: str) -> str:
    """Return the regular expression of such a text, for JSON Schema."""
    names = "|".join(UNITS[unit])
    return rf"^[0-9]{{1,15}}(\.[0-9]{{1,9}})? ?({names})?$"


def quoted(text: str) -> str:
    """Quote *text* for a message: on one line, escaped, at most 80 characters, without what may be a secret."""
    text = without_secrets(text)
    shown = ascii(text) if any(not character.isprintable() for character in text) else f'"{text}"'
    return shown if len(shown) <= 80 else f"{shown[:76]}…{shown[-1]}"
