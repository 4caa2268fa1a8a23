"""Scenes of consumer groups."""

from collections.abc import Sequence

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Client, Rows, moment
from tests.support.scenes.scene import scene


@scene(
    "max_poll_exceeded", client_id="worker", group_id="jobs", evidence="stated", rebalance_timeout_ms=300_000,
    reason="consumer poll timeout has expired.",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("worker")
    member.group(0, "join", "jobs", member_id="worker-1", rebalance_timeout_ms=300_000)
    reason = "consumer poll timeout has expired." if bad else "the consumer is being closed"
    member.group(301, "leave", "jobs", api=ApiKey.LEAVE_GROUP, member_id="worker-1", reason=reason)


@scene("max_poll_exceeded", client_id="rd", evidence="inferred", away_ms=8000)
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("rd")  # librdkafka gives no reason
    member.group(0, "join", "jobs", member_id="rd-1", rebalance_timeout_ms=6000)
    member.group(6, "leave", "jobs", api=ApiKey.LEAVE_GROUP, member_id="rd-1")
    back = member if bad else tables.client("rd")  # a restart connects anew
    back.group(14, "join", "jobs", member_id="rd-2", rebalance_timeout_ms=6000)


@scene("max_poll_exceeded", client_id="stuck", evidence="inferred", away_ms=None, rebalance_timeout_ms=6000)
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("stuck")  # it never comes back; the healthy one had polled, and unsubscribed
    member.group(0, "join", "jobs", member_id="stuck-1", rebalance_timeout_ms=6000)
    member.fetch(1 if bad else 6, "jobs", 0, end=9)
    member.group(7.1, "leave", "jobs", api=ApiKey.LEAVE_GROUP, member_id="stuck-1")
    member.ask(18, ApiKey.METADATA)


@scene("refused_commits", client_id="moved", severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """The coordinator goes, and the next one does not know the member; or it does."""
    for name in ("moved", "other"):
        gone = {"broker_address": "10.0.10.90", "closed_by": "broker", "closed_at": moment(10)}
        tables.client(name, "10.0.10.1", **gone).ask(9.5, ApiKey.HEARTBEAT, group_id="jobs", member_id=name)
    member, code = tables.client("moved", "10.0.10.1", broker_address="10.0.10.91"), ErrorCode.ILLEGAL_GENERATION
    if bad:
        member.group(30, "commit", "jobs", api=ApiKey.OFFSET_COMMIT, member_id="moved", error_code=code)
    else:
        member.ask(30, ApiKey.OFFSET_COMMIT, group_id="jobs", member_id="moved")


@scene("refused_commits", client_id="late", commits=1, error_name="ILLEGAL_GENERATION", severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """The healthy one had polled too late, and left: see max_poll_exceeded; the other left on purpose. Both come back."""
    member, reason = tables.client("late"), "it unsubscribed" if bad else "consumer poll timeout has expired."
    member.group(0, "join", "late", member_id="late-1", rebalance_timeout_ms=300_000)
    member.group(301, "leave", "late", api=ApiKey.LEAVE_GROUP, member_id="late-1", reason=reason)
    member.group(310, "join", "late", member_id="late-2", rebalance_timeout_ms=300_000)
    code = ErrorCode.ILLEGAL_GENERATION
    member.group(320, "commit", "late", api=ApiKey.OFFSET_COMMIT, member_id="late-1", error_code=code)


@scene("max_poll_exceeded", client_id="static", evidence="inferred", away_ms=9002, group_instance_id="i-1")
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("static")  # it does not leave; the healthy one stood still, and was thrown out
    words = {"group_instance_id": "i-1", "rebalance_timeout_ms": 6000}
    member.group(0, "join", "jobs", member_id="i-1-a", **words)
    member.fetch(1, "jobs", 0, end=9)
    member.ask(5, ApiKey.HEARTBEAT, group_id="jobs", member_id="i-1-a")
    if not bad:
        member.ask(13, ApiKey.HEARTBEAT, group_id="jobs", member_id="i-1-a", error_codes=[ErrorCode.UNKNOWN_MEMBER_ID])
    member.group(14, "join", "jobs", member_id="i-1-b", **words)


@scene(
    "session_expired", client_id="paused", group_id="jobs", member_id="paused-1", session_timeout_ms=10_000, silence_ms=15_002,
    error_name="UNKNOWN_MEMBER_ID",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("paused")
    member.group(0, "join", "jobs", member_id="paused-1", session_timeout_ms=10_000)
    member.ask(5, ApiKey.HEARTBEAT, group_id="jobs", member_id="paused-1")
    if not bad:  # a heartbeat may cross the member's own leaving
        member.group(19, "leave", "jobs", api=ApiKey.LEAVE_GROUP, member_id="paused-1")
    code = ErrorCode.UNKNOWN_MEMBER_ID
    member.group(20, "heartbeat", "jobs", api=ApiKey.HEARTBEAT, member_id="paused-1", error_code=code)


@scene("session_expired", client_id="commits", group_id="jobs", member_id="paused-2", silence_ms=15_002)
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("commits")
    member.ask(5, ApiKey.HEARTBEAT, group_id="jobs", member_id="paused-2")
    sender = "paused-2" if bad else ""  # not a member: it only keeps its offsets there
    code = ErrorCode.UNKNOWN_MEMBER_ID
    member.group(20, "commit", "jobs", api=ApiKey.OFFSET_COMMIT, member_id=sender, error_code=code)


@scene(
    "static_member_flapping", client_id="a", group_id="jobs", group_instance_id="worker-0", conflicts=1, addresses=2,
    joins=2,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    first, second = tables.client("a", "10.0.0.5"), tables.client("b", "10.0.0.6")
    first.group(0, "join", "jobs", group_instance_id="worker-0", member_id="m-1")
    second.group(5, "join", "jobs", group_instance_id="worker-0" if bad else "worker-1", member_id="m-2")
    code = ErrorCode.FENCED_INSTANCE_ID if bad else ErrorCode.REBALANCE_IN_PROGRESS
    first.group(
        8, "heartbeat", "jobs", api=ApiKey.HEARTBEAT, group_instance_id="worker-0", member_id="m-1", error_code=code
    )


@scene("static_member_flapping", client_id="b", severity="critical", conflicts=1, kept_out=1)
def _(tables: Rows, bad: bool) -> None:
    """KIP-848: the newer of two is refused. Of the healthy ones one is another program's, and comes in later; the other
    is the same program, which died and has its id until its session ends; a supervisor then starts it again."""
    first = tables.client("a", "10.0.0.5")
    first.group(0, "join", "new", group_instance_id="worker-0", member_id="m-1", group_type="consumer")
    first.ask(10 if bad else 4, ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="new", member_id="m-1")
    second, code = (
        tables.client("b", "10.0.0.6"),
        ErrorCode.UNRELEASED_INSTANCE_ID if bad else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    words = {"group_instance_id": "worker-0" if bad else "worker-1", "member_id": "m-2", "group_type": "consumer"}
    second.group(5, "join", "new", api=ApiKey.CONSUMER_GROUP_HEARTBEAT, error_code=code, **words)
    if not bad:
        same = words | {"group_instance_id": "worker-0", "error_code": ErrorCode.UNRELEASED_INSTANCE_ID}
        second.group(5, "join", "new", api=ApiKey.CONSUMER_GROUP_HEARTBEAT, **same)
        third = tables.client("b", "10.0.0.8")
        third.group(11, "join", "new", group_instance_id="worker-0", member_id="m-3", group_type="consumer")
        third.ask(12, ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="new", member_id="m-3")
    tables.client("c", "10.0.0.7").produce(12, "orders")


@scene("static_member_flapping", group_instance_id="worker-0", conflicts=0, joins=5, addresses=1)
def _(tables: Rows, bad: bool) -> None:
    for number in range(5):  # a restart a minute; the healthy one, one an hour
        member = tables.client("a")
        member.group(
            number * (60 if bad else 3600), "join", "jobs", group_instance_id="worker-0", member_id=f"m-{number}"
        )


@scene("rebalance_storm", group_id="jobs", group_type="classic", generations=10, members=2, seconds=90)
def _(tables: Rows, bad: bool) -> None:
    members = tables.client("a"), tables.client("b")
    for generation in range(1, 11):
        for number, member in enumerate(members):
            at = (generation - 1) * (10 if bad else 100)
            member.group(at, "join", "jobs", member_id=f"m-{number}", response_generation=generation)


class _Epochs:
    """A group of KIP-848: joins and leaves, each of which makes its epoch one higher, and who hears of it."""

    def __init__(self, tables: Rows) -> None:
        self._tables, self._epoch = tables, 0

    def join(self, at: float, member: str) -> None:
        self._epoch += 1
        self._tables.client(member).group(
            at, "join", "jobs", api=ApiKey.CONSUMER_GROUP_HEARTBEAT, group_type="consumer", member_id=member, generation=0,
            response_generation=self._epoch,
        )  # fmt: skip

    def leave(self, at: float, member: str) -> None:
        self._epoch += 1
        self._tables.client(member).group(
            at, "leave", "jobs", api=ApiKey.CONSUMER_GROUP_HEARTBEAT, group_type="consumer", member_id=member, generation=-1,
            response_generation=-1,
        )  # fmt: skip

    def hear(self, at: float, member: str) -> None:
        self._tables.client(member).group(
            at, "heartbeat", "jobs", api=ApiKey.CONSUMER_GROUP_HEARTBEAT, group_type="consumer", member_id=member,
            generation=self._epoch - 1, response_generation=self._epoch,
        )  # fmt: skip


@scene(
    "rebalance_storm",
    group_type="consumer",
    generations=10,
    members=10,
    seconds=90,
    severity="warning",
    first_cause="left",
    client_id="m-0",
)
def _(tables: Rows, bad: bool) -> None:
    """One of two members is restarted every ten seconds; else thirty are started, and each hears of each that comes."""
    group = _Epochs(tables)
    group.join(0, "steady")
    for number in range(10 if bad else 30):
        group.join(10 * number + 1, f"m-{number}")
        if bad:
            group.leave(10 * number + 5, f"m-{number}")
        group.hear(10 * number + 6, "steady")


@scene("rebalance_storm", group_type="consumer", generations=10, seconds=90)
def _(tables: Rows, bad: bool) -> None:
    """The only member is restarted again and again: no other hears that it is gone."""
    group = _Epochs(tables)
    for number in range(11):
        group.join(10 * number, f"m-{number}")
        if bad:
            group.leave(10 * number + 5, f"m-{number}")


@scene("rebalance_storm", group_type="consumer", generations=10, members=2)
def _(tables: Rows, bad: bool) -> None:
    """A member that does not poll in time leaves, and comes back under the same id."""
    group = _Epochs(tables)
    group.join(0, "steady")
    group.join(1, "slow")
    for number in range(5 if bad else 2):
        group.leave(20 * number + 10, "slow")
        group.hear(20 * number + 12, "steady")
        group.join(20 * number + 15, "slow")
        group.hear(20 * number + 17, "steady")


@scene(
    "coordinator_errors", client_id="worker", resource="jobs", errors=20, seconds=19, error_name="NOT_COORDINATOR",
    brokers=1, severity="critical", shared_address="balancer:9092",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    member = tables.client("worker")  # the healthy one asks as often, for two seconds after a broker's restart
    member.ask(0, ApiKey.METADATA, advertised=["1 balancer:9092", "2 balancer:9092"])
    for number in range(20):
        at = number * (1 if bad else 0.1)
        member.error(at, ApiKey.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, "jobs", kind="group", group_id="jobs")


@scene("coordinator_errors", client_id=None, errors=20, seconds=19, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    member = tables.client(None)  # it goes on, without a client id
    for number in range(20 if bad else 9):
        member.error(
            100 + number, ApiKey.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, "posts", kind="group", group_id="posts"
        )
    member.ask(125, ApiKey.HEARTBEAT, group_id="posts")


@scene(
    "mixed_subscriptions", group_id="shared", client_id="app-1", topics="bills", other_client_id="app-2", other_topics="letters",
    seconds=90,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    one, other = tables.client("app-1"), tables.client("app-2")
    one.group(0, "join", "shared", member_id="m-1", subscribed_topics=["bills"])
    others = ["letters"] if bad else ["bills", "letters"]  # the one has not heard of a new topic yet
    other.group(10, "join", "shared", member_id="m-2", subscribed_topics=others)
    for client in (one, other):
        client.ask(100.0, ApiKey.HEARTBEAT, group_id="shared", seconds=0.0)
    # least of both ends, 100 s, less the later of both beginnings, 10.002 s: 89.998 s, and 0.002 s that the join took
    tables.tables["group_events"][1]["seen_at"] = tables.tables["group_events"][1]["request_at"]


@scene(
    "mixed_subscriptions", group_id="shared", client_id="old", topics="bills", other_client_id="new", connections=1,
    seconds=60,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """A release with other topics beside the old one; the healthy one replaces it, and is rolled back an hour later."""
    for number, (name, topic, begins) in enumerate(
        (("old", "bills", 0), ("new", "letters", 40 if bad else 110), ("old", "bills", 3600))
    ):
        client = tables.client(name)
        client.group(begins, "join", "shared", member_id=f"m-{number}", subscribed_topics=[topic])
        client.ask(begins + 100.002, ApiKey.HEARTBEAT, group_id="shared", seconds=0.0)


@scene("mixed_subscriptions", group_id="shared", topics="bills", other_topics="letters", seconds=15)
def _(tables: Rows, bad: bool) -> None:
    for name, topic in (
        ("bill", "bills"),
        ("mail" if bad else "bill2", "letters"),
    ):  # another program, or its next release
        client = tables.client(name)
        client.group(0, "join", "shared", member_id=name, subscribed_topics=[topic])
        client.ask(15.002, ApiKey.HEARTBEAT, group_id="shared", seconds=0.0)


@scene(
    "assignor_mismatch", client_id="new", group_id="jobs", offered="cooperative-sticky", in_use="range", errors=1,
    severity="critical",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    old, new = tables.client("old"), tables.client("new")
    old.group(0, "join", "jobs", member_id="m-1", protocol="range", protocols=["range"])
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if bad else ErrorCode.MEMBER_ID_REQUIRED
    new.group(1, "join", "jobs", member_id="", protocols=["cooperative-sticky"], error_code=code)


@scene("assignor_mismatch", offered="magic", in_use=None, error_name="UNSUPPORTED_ASSIGNOR", severity="critical")
def _(tables: Rows, bad: bool) -> None:
    heartbeat = {"api": ApiKey.CONSUMER_GROUP_HEARTBEAT, "group_type": "consumer", "member_id": "m-1"}
    code = ErrorCode.UNSUPPORTED_ASSIGNOR if bad else ErrorCode.COORDINATOR_NOT_AVAILABLE
    tables.client("new").group(1, "join", "jobs", protocol="magic", error_code=code, **heartbeat)


@scene("assignor_mismatch", client_id="new", group_id="tasks", errors=1, got_in=1, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    new = tables.client("new")
    if bad:
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        new.group(1, "join", "tasks", member_id="", protocols=["sticky"], error_code=refused)
    new.group(9, "join", "tasks", member_id="m-1", protocol="range", protocols=["range"])


@scene("idle_members", group_id="jobs", generation=2, members=3, idle=1, partitions=2)
def _(tables: Rows, bad: bool) -> None:
    leader = tables.client("a")
    first = leader.ask(0, ApiKey.SYNC_GROUP, group_id="jobs")  # an assignment before the last does not count
    leader.event(0, first, "assign", "jobs", member_id="m-9", generation=1, assignment=[])
    last = leader.ask(1, ApiKey.SYNC_GROUP, group_id="jobs")
    for number in range(3):  # the other one's assignor shares four partitions unevenly
        given = [f"{topic}-{number}" for topic in ("jobs", "more")[: 1 if bad else 2]] if number < 2 else []
        leader.event(1, last, "assign", "jobs", member_id=f"m-{number}", generation=2, assignment=given)


@scene("idle_members", group_id="newer", generation=4, members=3, idle=1, partitions=2)
def _(tables: Rows, bad: bool) -> None:
    # a member of the KIP-848 protocol has nothing at first; one that is given something two heartbeats later is not idle
    for number in range(3):
        member = tables.client(f"app-{number}")
        for at, epoch, given in (
            (number, 3, []),
            (number + 5, 4, [f"orders-{number}"] if number < 2 or not bad else None),
        ):
            words = {"group_id": "newer", "member_id": f"m-{number}"}
            beat = member.ask(at, ApiKey.CONSUMER_GROUP_HEARTBEAT, **words)
            word = "join" if epoch == 3 else "heartbeat"
            told = {"generation": epoch - 1, "response_generation": epoch, "assignment": given}
            member.event(at, beat, word, "newer", member_id=f"m-{number}", group_type="consumer", **told)
    member.ask(30, ApiKey.METADATA)


@scene("session_expired", client_id="copied", error_name="FENCED_MEMBER_EPOCH", silence_ms=2002, times=3)
def _(tables: Rows, bad: bool) -> None:
    """Each join is undone two seconds later, as another process has the same id; the healthy one left each time."""
    member = tables.client("copied")
    told = {"member_id": "copied-1", "group_type": "consumer", "api": ApiKey.CONSUMER_GROUP_HEARTBEAT}
    for number in range(3):
        member.group(5 * number, "join", "copies", generation=0, response_generation=number + 1, **told)
        if not bad:
            member.group(5 * number + 1, "leave", "copies", generation=-1, response_generation=-1, **told)
        fenced = {"generation": number + 1, "error_code": ErrorCode.FENCED_MEMBER_EPOCH}
        member.group(5 * number + 2, "heartbeat", "copies", **told, **fenced)


@scene(
    "unread_partitions", client_id="leads", severity="warning", group_id="bills", topic="orders", partitions=2, which="2, 10",
    members=2, assignor="own", generation=1, records=1, seconds=118,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """In healthy groups the partition is added later, the leader reads it by itself, or its owner has to let it go first."""
    _leaves_out(tables, "bills", added=not bad)
    if not bad:
        leader = _leaves_out(tables, "assigns")
        for number in (2, 10):
            leader.fetch(60, "orders", 0, number)
        _leaves_out(tables, "moves", until=50)
        _leaves_out(tables, "cooperates", owned=["orders-1", "orders-2", "orders-10"])


def _leaves_out(
    tables: Rows, group: str, *, added: bool = False, until: int = 120, owned: Sequence[str] = ()
) -> Client:
    """Two members get partitions 0 and 1; the leader knows two more before it assigns, or only after they were *added*.

    *owned*: what the second member has when it joins.
    """
    leader, other = (
        tables.client(f"{name}-{group}" if group != "bills" else name, f"10.0.0.{number}")
        for number, name in ((5, "leads"), (6, "follows"))
    )
    for at, partitions in ((0, (0, 1) if added else (0, 1, 2, 10)), (90, (0, 1, 2, 10))):
        exchange = leader.ask(at, ApiKey.METADATA, topics=["orders"], described_topics=["orders"])
        for number in partitions:
            placed = {"leader_id": 1, "replicas": [1], "in_sync_replicas": [1], "offline_replicas": []}
            place = {"connection_id": leader.id, "exchange": exchange, "seen_at": moment(at + 0.002), "topic": "orders"}
            tables.add("partition_states", **place, api_key=3, partition=number, error_code=0, **placed)
    known = {"protocol": "own", "subscribed_topics": ["orders"], "response_generation": 1}
    for member, number in ((leader, 0), (other, 1)):
        has = {"owned": owned if number else []}
        member.group(0.5, "join", group, member_id=f"m-{number}", is_leader=number == 0, **has, **known)
    for member, number in ((leader, 0), (other, 1)):
        of_member = {"member_id": f"m-{number}", "generation": 1, "response_generation": 1}
        given = {"assignment": [f"orders-{number}"], "is_leader": number == 0}
        synced = member.group(1, "sync", group, api=ApiKey.SYNC_GROUP, **of_member, **given)
        if number == 0:
            for place in (0, 1):
                member.event(
                    1, synced, "assign", group, member_id=f"m-{place}", generation=1, assignment=[f"orders-{place}"]
                )
    tables.client("shop", "10.0.0.7").produce(30, "orders", 2)
    for at in range(5, until + 1, 5):
        for member, number in ((leader, 0), (other, 1)):
            member.ask(at, ApiKey.HEARTBEAT, group_id=group, member_id=f"m-{number}", generation_id=1)
    return leader
