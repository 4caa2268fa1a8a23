"""Hostile strings: nothing that a terminal obeys comes through, ordinary names come through as they are."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.escaping import LONGEST_NAME, MOST_BYTES, label_of, printable, well_formed, word

HOSTILE = {
    "two\nlines": "two\\nlines",
    "\x1b[31mred": "\\x1b[31mred",
    "nul\0": "nul\\x00",
    "\u202egnp.exe": "\\u202egnp.exe",  # right-to-left override (Trojan Source, CVE-2021-42574)
    "\u2066x\u2069": "\\u2066x\\u2069",
    "zero\u200bwidth": "zero\\u200bwidth",
    "\u2028": "\\u2028",  # line separator
    "\x9b2J": "\\x9b2J",  # C1 control sequence introducer
    "\ud800": "\\ud800",
    "a\\nb\n": "a\\\\nb\\n",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_obeys_is_escaped(text: str) -> None:
    assert printable(text) == HOSTILE[text]


@pytest.mark.parametrize("text", ["orders", "größe", "注文", "a b", "C:\\kafka", "🚀"])
def test_ordinary_names_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_long_strings_are_cut_and_say_so() -> None:
    assert printable("x" * 40_000, 10) == "x" * 9 + "…"


def test_a_word_is_one_word() -> None:
    assert word("") == '""'
    assert word("my client") == '"my client"'
    assert word('say "hi"') == '"say \\"hi\\""'
    assert word("plain") == "plain"


@given(st.text(st.characters(), max_size=50))
def test_no_control_or_format_character_is_left_whatever_comes(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert len(shown.splitlines()) <= 1


def test_bytes_that_were_no_text_become_the_replacement_character() -> None:
    assert well_formed(b"a\x80\xff".decode("utf-8", "surrogateescape")) == b"a\x80\xff".decode("utf-8", "replace")
    assert well_formed("größe 🚀") == "größe 🚀"


@given(st.text(st.characters(), max_size=50))
def test_what_is_well_formed_can_be_encoded(text: str) -> None:
    assert well_formed(text).encode("utf-8").decode("utf-8") == well_formed(text)


@pytest.mark.parametrize("kind", ["x", "\u00e9", "\U0001f9ea", '"', "\\", "\0", "\n", "\u202e", "\udcff", "\U000e0001"])
@pytest.mark.parametrize("size", [20, LONGEST_NAME - 1, LONGEST_NAME, 5_000])
def test_names_that_begin_alike_are_series_of_their_own_and_no_label_is_large(kind: str, size: int) -> None:
    names = [kind * size + end for end in ("", "a", "b")]
    labels = [label_of(name) for name in names]
    assert len(set(labels)) == len(names)
    assert all(shown.isprintable() for shown in labels)
    assert max(len(json.dumps(shown, ensure_ascii=False).encode()) for shown in labels) <= MOST_BYTES + len('""')


def test_a_name_as_long_as_kafka_allows_is_a_label_whole() -> None:
    name = "billing.invoices-v2_" * 12 + "123456789"
    assert len(name) == 249 and label_of(name) == name
    assert label_of("a name of two words") == "a name of two words"
