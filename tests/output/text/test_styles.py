"""Colours only where there is somebody to see them; cutting to a width in terminal cells."""

import io

from kproxy.output.text.styles import ANSI, PLAIN, cut, style_for


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal_that_wants_them() -> None:
    assert style_for(Terminal(), {}) is ANSI
    assert style_for(io.StringIO(), {}) is PLAIN
    assert style_for(Terminal(), {"NO_COLOR": "1"}) is PLAIN
    assert style_for(Terminal(), {"TERM": "dumb"}) is PLAIN


def test_painting_wraps_text_and_leaves_nothing_open() -> None:
    assert ANSI.paint(ANSI.error, "x") == "\x1b[1;31mx\x1b[0m"
    assert ANSI.paint(ANSI.error, "") == ""
    assert PLAIN.paint(PLAIN.error, "x") == "x"


def test_cutting_counts_cells() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"
    assert cut("注文注文", 8) == "注文注文"  # two cells each (Unicode standard annex 11)
    assert cut("注文注文", 6) == "注文…"
    assert cut("abc", 0) == ""
