"""Align arrays: which element of a recorded array corresponds to which element of the new answer's array.

Elements are matched by the fields that identify them, after ids of the recorded cluster were translated.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from kproxy.replay.identifiers import key_fields, kind_of
from kproxy.replay.identities import Identities, Place

Pair: TypeAlias = tuple[Any | None, Any | None]  # recorded, new; None: there is none


def align(
    message: str,
    recorded: Sequence[Any],
    new: Sequence[Any],
    identities: Identities,
    place: Place,
    *,
    by_place: bool = True,
) -> list[Pair]:
    """Pair the structs of two arrays.

    Elements that no field identifies are paired by their index if *by_place* is true, else they are left out.
    """
    if not recorded and not new:
        return []
    keyed = _by_key(message, recorded, new, identities, place)
    if keyed is not None:
        return keyed
    if not by_place and (len(recorded), len(new)) != (1, 1):
        return []
    shared = min(len(recorded), len(new))
    pairs: list[Pair] = list(zip(recorded[:shared], new[:shared], strict=True))
    return pairs + [(one, None) for one in recorded[shared:]] + [(None, one) for one in new[shared:]]


def _by_key(
    message: str, recorded: Sequence[Any], new: Sequence[Any], identities: Identities, place: Place
) -> list[Pair] | None:
    """Return pairs of elements with the same key; None if keys do not tell the elements apart."""
    if not key_fields(message, (recorded or new)[0]):
        return None
    old = {_key(message, one, identities, identities.place(one, place), ours=True): one for one in recorded}
    other = {_key(message, one, identities, place, ours=False): one for one in new}
    if len(old) != len(recorded) or len(other) != len(new):
        return None
    return list(_joined(old, other))


def _joined(old: dict[Any, Any], other: dict[Any, Any]) -> Iterator[Pair]:
    for key, one in old.items():
        yield one, other.get(key)
    for key, one in other.items():
        if key not in old:
            yield None, one


def _key(message: str, struct: Any, identities: Identities, place: Place, *, ours: bool) -> tuple[Any, ...]:
    """Return the values that identify a struct, with the new cluster's ids. *ours*: the struct has recorded ids, to translate."""
    values = []
    for field in key_fields(message, struct):
        value = getattr(struct, field.attribute)
        kind = kind_of(message, field)
        if kind is not None and ours:
            value = identities.new_id(kind, value, place, field.name)
        values.append(value)
    return tuple(values)
