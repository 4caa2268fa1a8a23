"""Colours for a terminal, as few as carry meaning; plain text for everything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from kproxy.output.escaping import ELLIPSIS


@dataclass(frozen=True, slots=True)
class Style:
    """The escape sequences for each kind of text; "" for none."""

    dim: str = ""
    name: str = ""
    key: str = ""
    error: str = ""
    warning: str = ""
    reset: str = ""

    def paint(self, code: str, text: str) -> str:
        """Return *text* between *code* and reset; unchanged if there are no colours."""
        return f"{code}{text}{self.reset}" if code and text else text


PLAIN = Style()
ANSI = Style(dim="\x1b[2m", name="\x1b[1;36m", key="\x1b[36m", error="\x1b[1;31m", warning="\x1b[33m", reset="\x1b[0m")


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a standard stream is a terminal. One that the shell has closed (``>&-``) is None."""
    return stream is not None and stream.isatty()


def style_for(stream: TextIO | None, environment: Mapping[str, str]) -> Style:
    """Return colours for a terminal, unless it is dumb or NO_COLOR is set (no-color.org); PLAIN for anything else."""
    if not is_terminal(stream) or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return PLAIN
    return ANSI


def cut(text: str, width: int) -> str:
    """Cut *text* to *width* terminal cells, with an ellipsis if something is missing."""
    if len(text) <= width and text.isascii():
        return text
    if width <= 0:
        return ""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - most text is ASCII, and fits

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS
