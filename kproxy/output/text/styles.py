"""Colours for a terminal, as few as carry meaning; plain text for everything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from kproxy.output.escaping import ELLIPSIS


@dataclass(frozen=True, slots=True)
class Style:
    """How text is shown: the escape sequences around what is dim, named, good to find, or wrong."""

    dim: str = ""
    name: str = ""
    key: str = ""
    error: str = ""
    warning: str = ""
    reset: str = ""

    def paint(self, code: str, text: str) -> str:
        """*text* between *code* and reset; as it is where there are no colours."""
        return f"{code}{text}{self.reset}" if code and text else text


PLAIN = Style()
ANSI = Style(dim="\x1b[2m", name="\x1b[1;36m", key="\x1b[36m", error="\x1b[1;31m", warning="\x1b[33m", reset="\x1b[0m")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; one that the shell has closed (``>&-``) is None."""
    return stream is not None and stream.isatty()


def style_for(stream: TextIO | None, environment: Mapping[str, str]) -> Style:
    """Colours only on a terminal that is not dumb, and not when NO_COLOR is set (no-color.org)."""
    if not is_terminal(stream) or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return PLAIN
    return ANSI


def cut(text: str, width: int) -> str:
    """*text* cut to *width* terminal cells, with an ellipsis where something is missing."""
    if len(text) <= width and text.isascii():
        return text
    if width <= 0:
        return ""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - most text is ASCII, and fits

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS
