"""Scenes of replicas and leaders, and of records that share groups get again."""

from kproxy.protocol import ApiKey
from tests.support.scenes.rows import Client, Rows, moment
from tests.support.scenes.scene import scene


def _describes(
    client: Client, tables: Rows, at: float, *states: tuple[int, list[int], list[int]], changed: bool = True
) -> None:
    """Metadata names leader, replicas and those in sync of each partition; there are rows if something *changed*."""
    named = {
        "topics": ["orders"],
        "described_topics": ["orders"],
        "advertised": ["1 10.0.0.9:9092", "3 10.0.0.11:9092"],
    }
    exchange = client.ask(at, ApiKey.METADATA, **named)
    for number, (leader, replicas, in_sync) in enumerate(states if changed else ()):
        placed = {"leader_id": leader, "replicas": replicas, "in_sync_replicas": in_sync, "offline_replicas": []}
        place = {"connection_id": client.id, "exchange": exchange, "seen_at": moment(at + 0.002), "topic": "orders"}
        tables.add("partition_states", **place, api_key=3, partition=number, error_code=0, **placed)


@scene(
    "under_replicated", severity="notice", broker_id=3, broker="10.0.0.11:9092", topic="orders", partitions=1, topics=1,
    replicas=3, in_sync=2, seconds=420, came_back=True, back_at=moment(720.002),
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The healthy one has the broker in sync again after four minutes: it was restarted. In both a replica moves to broker 4."""
    client = tables.client("shop")
    whole, one_less, moves = (1, [1, 2, 3], [1, 2, 3]), (1, [1, 2, 3], [1, 2]), (1, [1, 2, 4], [1, 2])
    _describes(client, tables, 0, whole, moves)
    _describes(client, tables, 60, one_less)
    _describes(client, tables, 300, one_less, changed=False)
    if bad:
        _describes(client, tables, 480, one_less, changed=False)
    _describes(client, tables, 720, whole)


@scene(
    "leader_imbalance", broker_id=3, broker="10.0.0.11:9092", preferred=2, displaced=2, leads=0, most_leads=2, most_broker_id=1,
    topic="orders", seconds=660,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """In the healthy one its leaders are moved back to it after five minutes."""
    client = tables.client("shop")
    moved = [(leader, [3, 1, 2], [1, 2, 3]) for leader in (1, 1)]
    _describes(client, tables, 0, *moved)
    _describes(client, tables, 300, *moved, changed=False)
    _describes(client, tables, 660, *(moved if bad else [(3, [3, 1, 2], [1, 2, 3])] * 2), changed=not bad)


@scene("moving_leaders", topic="orders", partition=0, changes=8, seconds=420, leaders="1, 3")
def _(tables: Rows, bad: bool) -> None:
    """The leader moves each minute; in the healthy one once, and back."""
    client = tables.client("shop")
    for number in range(9):
        leader = (1, 3)[number % 2] if bad or number == 1 else 1
        _describes(client, tables, 60 * number, (leader, [1, 3, 2], [1, 2, 3]))
        tables.tables["partition_states"][-1]["leader_epoch"] = number if bad else min(number, 2)


def _gets(client: Client, tables: Rows, at: float, deliveries: int, answer: str = "release", last: int = 9) -> None:
    """A member gets three records, up to the *last*, and answers a second later."""
    for seconds, event in enumerate(("acquired", answer)):
        api = ApiKey.SHARE_ACKNOWLEDGE if seconds else ApiKey.SHARE_FETCH
        exchange = client.ask(at + seconds, api, group_id="bills", seconds=0)
        told = {"delivery_count": deliveries} if event == "acquired" else {"error_code": 0}
        place = {
            "connection_id": client.id,
            "exchange": exchange,
            "seen_at": moment(at + seconds),
            "client_id": client.client_id,
        }
        of_group = {"group_id": "bills", "member_id": "m-1", "topic": "orders", "partition": 0}
        tables.add("share_deliveries", **place, **of_group, event=event, first_offset=7, last_offset=last, **told)


@scene(
    "share_redelivery", severity="warning", client_id="billing", group_id="bills", cause="released", topic="orders", records=3,
    deliveries=5, at_limit=3, partition=0, first_offset=7, seconds=6,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The healthy one accepts them the second time."""
    member = tables.client("billing")
    for number in range(1, 6 if bad else 3):
        _gets(member, tables, 3 * number, number, "release" if bad or number < 2 else "accept")


@scene("share_redelivery", severity="warning", cause="released", records=1, deliveries=5, at_limit=1)
def _(tables: Rows, bad: bool) -> None:
    """One record is given up; of the healthy one the limit is not reached."""
    for number in range(1, 6 if bad else 5):
        _gets(tables.client("billing"), tables, 3 * number, number, last=7)


@scene(
    "share_redelivery", severity="notice", client_id="billing", cause="rejected", topic="orders", records=3, deliveries=None,
    at_limit=0,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The healthy one accepts them."""
    _gets(tables.client("billing"), tables, 0, 1, "reject" if bad else "accept")


@scene(
    "flapping_replicas", broker_id=3, broker="10.0.0.11:9092", times=4, partitions=1, topic="orders", seconds=120,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """In the healthy one the broker is restarted each hour, and two connections are told of it at different times."""
    whole, one_less = (1, [1, 2, 3], [1, 2, 3]), (1, [1, 2, 3], [1, 2])
    if bad:
        client = tables.client("shop")
        for number in range(9):
            _describes(client, tables, 20 * number, one_less if number % 2 else whole)
        return
    for late in (0, 15):
        client = tables.client("shop")
        for number in range(10):
            _describes(client, tables, 1800 * number + late, one_less if number % 2 else whole)
