"""YAML text -> nodes with their places. A hostile file cannot use much memory: size, depth, tokens and aliases are bounded, and
convert.py refuses tags, so that only plain values can result.

An alias bomb (nine lists of nine aliases each stand for 10^9 values) is small as nodes; convert.py counts the values that
aliases stand for.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from kproxy.errors import ConfigError, Mistake

MOST_TEXT = 1 << 20  # bytes
MOST_EVENTS = 50_000  # a scalar is one, a collection two
MOST_DEPTH = 32
TOO_DEEP = f"values are nested deeper than {MOST_DEPTH} levels"
MOST_ALIASES = 1_000
WORD = re.compile(r"['\"][^'\"<>\s]{3,}['\"]")
INDENTED_BY_TAB = re.compile(r" *\t")

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's where PyYAML was built with it
Node = yaml.nodes.Node


def read_tree(text: str, source: str) -> Node:
    """Parse the document and return its root node.

    Raises ConfigError: invalid YAML, not exactly one document, or too large. A syntax error hides all other mistakes.
    """
    if len(text) > MOST_TEXT:
        raise ConfigError([Mistake(1, 1, "", f"the file is larger than {MOST_TEXT:,} characters")], source)
    try:
        _measure(yaml.parse(text, Loader=Loader), source)
        root = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_mistake(error, text)], source) from None
    except (yaml.YAMLError, ValueError) as error:  # a character that YAML does not allow
        raise ConfigError([Mistake(1, 1, "", f"invalid YAML: {_one_line(str(error))}")], source) from None
    if root is None:
        raise ConfigError([Mistake(1, 1, "", "the file is empty: write at least clusters")], source)
    return root


def _measure(events: Iterator[yaml.Event], source: str) -> None:
    """Refuse a file that is too large before any node is created: composing is recursive, parsing is not."""
    depth = aliases = 0
    for count, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        why = _too_much(count, depth, aliases)
        if why:
            mark: Any = event.start_mark
            raise ConfigError([Mistake(mark.line + 1, mark.column + 1, "", why)], source)


def _too_much(count: int, depth: int, aliases: int) -> str:
    if depth > MOST_DEPTH:
        return TOO_DEEP
    if aliases > MOST_ALIASES:
        return f"there are more than {MOST_ALIASES:,} aliases (*name)"
    return f"there are more than {MOST_EVENTS:,} values" if count > MOST_EVENTS else ""


def _syntax_mistake(error: yaml.MarkedYAMLError, text: str) -> Mistake:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    # what is named in it is a word of the file: an alias or a tag, which may be a password that begins with "*" or "!"
    problem = WORD.sub("a word", _one_line(" ".join(part for part in (error.context, error.problem) if part)))
    before = text.splitlines()[line - 1 : line]
    is_tab = any(INDENTED_BY_TAB.match(one) for one in before)  # libyaml does not say which character it is
    hint = "; indent with spaces" if is_tab else ""
    is_too_deep = "maximum nesting depth" in problem  # libyaml's own bound, which it meets as it reads ahead
    return Mistake(line, column, "", TOO_DEEP if is_too_deep else f"invalid YAML: {problem}{hint}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
