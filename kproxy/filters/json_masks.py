"""JSON with the values at some paths hidden. Every other value keeps its bytes: numbers and nested values are not read."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

Tree = dict[str | int, Any]  # name, index, or EVERY -> a Tree, or LEAF
LEAF = None
EVERY = -1
STEP = re.compile(r"""\.([A-Za-z_$][\w$-]*)|\['([^']*)'\]|\["([^"]*)"\]|\[(\d{1,9})\]|(\[\*\]|\.\*)""")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def parse_paths(paths: Iterable[str]) -> Tree:
    """The tree of JSON paths such as ``$.card.number``, ``$.people[*]['e-mail']``, ``$.lines[0].*``. Raises ValueError."""
    tree: Tree = {}
    for path in paths:
        _add(tree, path)
    return tree


def _add(tree: Tree, path: str) -> None:
    at = 1
    steps: list[str | int] = []
    while path.startswith("$") and at < len(path):
        found = STEP.match(path, at)
        if found is None:
            break
        name, quoted, doubly, index, every = found.groups()
        steps.append(
            EVERY if every else int(index) if index else next(n for n in (name, quoted, doubly) if n is not None)
        )
        at = found.end()
    if not steps or at < len(path):
        raise ValueError(f"{path!r} is no JSON path: write $.name, $.list[*].name, $['a name'], $.list[0]")
    for step in steps[:-1]:
        below = tree.setdefault(step, {})
        if below is LEAF:  # all of it is hidden already
            return
        tree = below
    tree[steps[-1]] = LEAF


class Mask:
    """Hides the values at the paths of a tree.

    Args:
        tree: of ``parse_paths``.
        replacement: JSON that stands in place of each value; None: the member is removed, of an array null.
    """

    def __init__(self, tree: Tree, replacement: bytes | None) -> None:
        self._tree = tree
        self._removes = replacement is None
        self._replacement = msgspec.Raw(b"null" if replacement is None else replacement)

    def apply(self, data: bytes) -> bytes | None:
        """The JSON with the values hidden; None: it has none of them. Raises msgspec.DecodeError for what is no JSON."""
        return self._masked(data, self._tree)

    def _masked(self, data: Any, tree: Tree) -> bytes | None:
        try:
            return self._object(_object.decode(data), tree)
        except msgspec.ValidationError:  # JSON, and no object
            pass
        try:
            return self._array(_array.decode(data), tree)
        except msgspec.ValidationError:
            return None

    def _object(self, members: dict[str, msgspec.Raw], tree: Tree) -> bytes | None:
        changed = False
        for name in list(members) if EVERY in tree else [name for name in tree if name in members]:
            below = tree[name] if name in tree else tree[EVERY]
            if below is LEAF:
                self._hide(members, name)
                changed = True
            elif (masked := self._masked(members[name], below)) is not None:
                members[name] = msgspec.Raw(masked)
                changed = True
        return _encode(members) if changed else None

    def _array(self, elements: list[msgspec.Raw], tree: Tree) -> bytes | None:
        changed = False
        for index in (
            range(len(elements)) if EVERY in tree else [i for i in tree if isinstance(i, int) and i < len(elements)]
        ):
            below = tree[index] if index in tree else tree[EVERY]
            if below is LEAF:
                elements[index] = self._replacement
                changed = True
            elif (masked := self._masked(elements[index], below)) is not None:
                elements[index] = msgspec.Raw(masked)
                changed = True
        return _encode(elements) if changed else None

    def _hide(self, members: dict[str, msgspec.Raw], name: Any) -> None:
        if self._removes:
            del members[name]
        else:
            members[name] = self._replacement
