"""What connections know of each other: names by packet, servers, and when they have to be decoded again."""

from kproxy.capture.roles import Endpoints
from kproxy.capture.splitting import Part, PartSurvey
from kproxy.protocol.ids import METADATA_TOPIC_ID
from kproxy.spark.facts import Shared, SharedEndpoints, SharedView, answers, gather, merge

UUID = "AAAAAAAAAAAAAAAAAAAAAg"
CLIENT, OTHER, SERVER = b"\x0a\x00\x00\x01\xc0\x00", b"\x0a\x00\x00\x02\xc0\x01", b"\x0a\x00\x00\x03\x80\x00"
PART = Part(24, 100, b"", known=True)


def view_at(position: int, shared: Shared) -> SharedView:
    return SharedView(shared, lambda: position)


def test_a_name_is_known_from_the_packet_that_shows_it() -> None:
    shared = Shared(names={UUID: (100, "orders")}, waits={40: 120})
    assert view_at(99, shared).topic_name(UUID) is None
    assert view_at(100, shared).topic_name(UUID) == "orders"
    assert view_at(40, shared).topic_name(UUID) == "orders"  # an undivided run holds its events back until packet 120
    assert view_at(1, shared).topic_name(METADATA_TOPIC_ID) == "__cluster_metadata"


def test_what_is_missed_counts_only_if_another_knew_it_in_time() -> None:
    view = view_at(99, Shared())
    assert view.topic_name(UUID) is None
    assert view.missed == {UUID: 99}
    assert answers({}, {UUID: (98, "orders")}, view.missed)
    assert not answers({}, {UUID: (100, "orders")}, view.missed)
    assert not answers({}, {}, view.missed)
    assert answers({UUID: (5, "orders")}, {UUID: (90, "renamed")}, {})


def test_the_earliest_wins() -> None:
    assert merge([{UUID: (9, "b")}, {UUID: (3, "a")}, {}]) == {UUID: (3, "a")}


def survey(first: int, packets: int, **found: object) -> PartSurvey:
    part = PartSurvey(PART, 24, 100, b"", packets, first_number=first)
    for name, value in found.items():
        setattr(part, name, value)
    return part


def test_roles_are_guessed_as_in_an_undivided_run() -> None:
    """A connection without SYN between two endpoints: the one that accepted another connection before is the server."""
    joined, accepted = CLIENT + SERVER, OTHER + SERVER
    shared = gather(
        [
            survey(1, 10, connections={joined: [4, False, 9]}),
            survey(11, 10, connections={accepted: [2, True, 9], joined: [1, False, 9]}, servers={SERVER: 2}),
        ]
    )
    assert shared.servers == {SERVER: 12}
    assert shared.flows == {CLIENT: [4], SERVER: [4, 12]}
    undivided = Endpoints()
    for packet in (4, 11, 12, 13):
        if packet in (4, 12):
            undivided.count(joined if packet == 4 else accepted)
        if packet == 12:
            undivided.accepted(accepted, 0)
        found = SharedEndpoints(shared, lambda at=packet: at, lambda: None)  # type: ignore[misc]
        assert found.guess_client(joined) == undivided.guess_client(joined), packet
    assert found.guess_client(joined) == 0  # by the port alone it would be 1


def test_new_flows_are_told() -> None:
    numbers: list[int] = []
    SharedEndpoints(Shared(), lambda: 7, lambda: numbers.append(7)).count(CLIENT + SERVER)
    assert numbers == [7]
