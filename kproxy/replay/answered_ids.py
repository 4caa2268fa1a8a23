"""Learn ids from two answers to one request: an id in the recorded one stands for the id in the same field of the new one."""

from typing import Any

from kproxy.protocol.structs import Struct
from kproxy.replay.alignment import align
from kproxy.replay.identifiers import Kind, Spot, spots
from kproxy.replay.identities import SAME_UUIDS, Identities, Place, put
from kproxy.replay.producer_ids import Producer

APPENDED = "BaseOffset"  # of Produce
CHOSEN = "Leader"  # of JoinGroup: each broker chooses one of the members, and they need not choose the same


def learn_ids(identities: Identities, message: str, recorded: Any, new: Any, place: Place) -> None:
    """Learn which ids of the new cluster stand for recorded ones, from two answers to the same request.

    Args:
        identities: where the ids are noted.
        message: name of the response, such as JoinGroupResponse.
        recorded: the recorded answer, or a struct in it.
        new: the same of the new cluster.
        place: what the request says about the group, topic and so on of the ids, by recorded names.
    """
    place = identities.place(recorded, place)
    for spot in spots(message, type(recorded).__name__):
        values = getattr(recorded, spot.field.attribute), getattr(new, spot.field.attribute)
        if spot.kind is None:
            _learn_of_structs(identities, message, spot, values, place)
        elif not spot.field.is_array:
            _note(identities, spot, values, place)
    _learn_producer(identities, message, recorded, new)


def _learn_of_structs(identities: Identities, message: str, spot: Spot, values: tuple[Any, Any], place: Place) -> None:
    recorded, new = values
    if spot.field.is_array:
        pairs = align(message, recorded or [], new or [], identities, place, by_place=False)
    else:
        pairs = [(recorded, new)]
    for old, other in pairs:
        if old is not None and other is not None:
            learn_ids(identities, message, old, other, place)


def _note(identities: Identities, spot: Spot, values: tuple[Any, Any], place: Place) -> None:
    recorded, new = values
    if spot.kind is Kind.UUID and recorded not in SAME_UUIDS and new not in SAME_UUIDS:
        put(identities.uuids, recorded, new)
    elif spot.kind is Kind.MEMBER and recorded and new and spot.field.name != CHOSEN:
        put(identities.members, recorded, new)
    elif spot.kind is Kind.GENERATION and recorded > 0 and new > 0:
        put(identities.generations, (place.group, place.member, recorded), new)
        put(identities.generations, (place.group, "", recorded), new)
    elif spot.kind is Kind.LEADER_EPOCH and recorded >= 0 and new >= 0:
        put(identities.leader_epochs, (place.topic, place.partition, recorded), new)
    elif spot.kind is Kind.OFFSET and spot.field.name == APPENDED and recorded >= 0 and new >= 0:
        identities.shifts.setdefault((place.topic, place.partition), new - recorded)
    elif spot.kind is Kind.TOKEN and recorded and new:
        put(identities.tokens, (spot.field.name, recorded), new)


def _learn_producer(identities: Identities, message: str, recorded: Struct, new: Any) -> None:
    if not message.startswith(("InitProducerId", "EndTxn")) or "producer_epoch" not in recorded.by_attribute:
        return
    old = Producer(recorded.producer_id, recorded.producer_epoch)
    other = Producer(new.producer_id, new.producer_epoch)
    if min(*old, *other) >= 0:
        identities.note_producer(old, other)
