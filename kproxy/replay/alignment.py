"""Which element of a recorded array belongs to which of the new answer's: by the fields that identify it, ids translated."""

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

    *by_place*: pair those without fields that identify them by their places; else they are left out.
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
    """Pairs by key; None where keys do not tell the elements apart."""
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
    """What identifies a struct, in the new cluster's ids; *ours*: it has recorded ids."""
    values = []
    for field in key_fields(message, struct):
        value = getattr(struct, field.attribute)
        kind = kind_of(message, field)
        if kind is not None and ours:
            value = identities.new_id(kind, value, place, field.name)
        values.append(value)
    return tuple(values)
