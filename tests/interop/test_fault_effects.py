"""What a client does not hear: whether the broker has done it is for the fault to say, and is read from the broker's own log.

A request that is lost before the broker is appended once, when the client sends it again. One whose response is lost is appended
twice, unless the producer is idempotent (KIP-98).
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from kproxy.testing import Proxy
from tests.support.kafka.brokers import Cluster
from tests.support.sampled import case
from tests.support.sockets import end_offsets

PATIENCE_S = 60
LOST = {  # effect, and how often the broker has appended what was sent once
    "error before": ({"error": "NOT_LEADER_OR_FOLLOWER"}, 1),
    "error after": ({"error": "NOT_LEADER_OR_FOLLOWER", "when": "after"}, 2),
    "disconnect before": ({"disconnect": True}, 1),
    "disconnect after": ({"disconnect": True, "when": "after"}, 2),
    "black hole before": ({"black_hole": True}, 1),
    "black hole after": ({"black_hole": True, "when": "after"}, 2),
    "truncated response": ({"truncate": 9}, 2),
}


def produce(bootstrap: str, topic: str, idempotent: bool, patience_s: float) -> None:
    """Produce a record, until it is acknowledged; *patience_s*: with an answer."""
    settings = {"socket.timeout.ms": int(patience_s * 1_000), "retry.backoff.ms": 20}
    errors = []
    client = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": idempotent, "log_level": 0, **settings})
    client.produce(topic, b"once", partition=0, on_delivery=lambda error, _: errors.append(error))
    client.flush(PATIENCE_S)
    assert errors == [None]


@pytest.fixture(scope="module")
def proxy(three: Cluster) -> Iterator[Proxy]:
    with Proxy(three.bootstrap()) as running:
        yield running


def test_the_broker_has_what_it_got_and_an_idempotent_producer_has_it_once(
    proxy: Proxy, three: Cluster, topic_name: str
) -> None:
    """All at once, each with a topic and a fault of its own: clients take seconds to give up a broker that is silent."""
    cases = {f"{topic_name}-{number}": each for number, each in enumerate(itertools.product(LOST, (False, True)))}
    for topic in cases:
        three.topic(topic)
    faults = {
        topic: proxy.fault(api_name="Produce", topic=topic, call=1, **LOST[lost][0])
        for topic, (lost, _) in cases.items()
    }

    def send(topic: str) -> None:
        lost, idempotent = cases[topic]
        # Only what is never answered is given up early: a broker that is busy for long must not be asked again
        produce(proxy.bootstrap, topic, idempotent, 3 if "black_hole" in LOST[lost][0] else PATIENCE_S)

    try:
        with ThreadPoolExecutor(len(cases)) as pool:
            list(pool.map(send, cases))
        for topic, (lost, idempotent) in cases.items():
            with case(lost, idempotent):
                assert (faults[topic].fired, faults[topic].calls) == (1, 2)
                assert end_offsets(three.open, topic) == {0: 1 if idempotent else LOST[lost][1]}
    finally:
        proxy.clear()


INVALID_RECORD = 87  # which clients do not send again, so that a record is a call
CLIENTS, BROKERS = 6, 3


def producers(bootstrap: str) -> list[Producer]:
    return [Producer({"bootstrap.servers": bootstrap, "log_level": 0}) for _ in range(CLIENTS)]


def codes(clients: list[Producer], topic: str, count: int) -> list[int | None]:
    """Send records one after the other, each by the next client to the leader on the next broker; the error of each."""
    said: list[int | None] = []
    for number in range(count):
        client = clients[number % len(clients)]
        client.produce(
            topic, b"x", partition=number % BROKERS, on_delivery=lambda error, _: said.append(error and error.code())
        )
        client.flush(PATIENCE_S)
    return said


def failing(said: list[int | None]) -> list[int]:
    """The numbers of the records that failed."""
    assert set(said) <= {None, INVALID_RECORD}
    return [number for number, code in enumerate(said, 1) if code is not None]


WHICH_CALLS = (
    ({"call": [3, 7, 8]}, [3, 7, 8]),
    ({"times": 2}, [1, 2]),
    ({"skip": 4, "times": 3}, [5, 6, 7]),
    ({"call": 5}, [5]),
    ({}, list(range(1, 13))),
)


@pytest.mark.slow
def test_calls_are_numbered_over_brokers_connections_and_workers(three: Cluster, topic_name: str) -> None:
    three.topic(topic_name, 3)
    with Proxy(three.bootstrap(), workers=2) as proxy:
        clients = producers(proxy.bootstrap)
        for when, expected in WHICH_CALLS:
            fault = proxy.fault(api_name="Produce", topic=topic_name, error="INVALID_RECORD", **when)
            assert failing(codes(clients, topic_name, 12)) == expected
            assert (fault.fired, fault.calls) == (len(expected), 12)
            fault.remove()


@pytest.mark.slow
def test_a_seed_chooses_the_same_calls_after_a_restart_and_with_more_workers(three: Cluster, topic_name: str) -> None:
    three.topic(topic_name, 3)
    runs = []
    for workers in (1, 2, 2):
        with Proxy(three.bootstrap(), workers=workers) as proxy:
            fault = proxy.fault(api_name="Produce", topic=topic_name, error="INVALID_RECORD", probability=0.4, seed=11)
            runs.append(failing(codes(producers(proxy.bootstrap), topic_name, 30)))
            assert (fault.fired, fault.calls) == (len(runs[-1]), 30)
    assert runs[0] == runs[1] == runs[2]
    assert 0 < len(runs[0]) < 30


@pytest.mark.slow
def test_clients_at_once_meet_the_fault_as_often_as_one_after_the_other(three: Cluster, topic_name: str) -> None:
    """Which of them meets it is a matter of whose request comes first; how many do is not."""
    three.topic(topic_name, 3)
    counts = []
    for workers in (1, 2):
        with Proxy(three.bootstrap(), workers=workers) as proxy, ThreadPoolExecutor(CLIENTS) as pool:
            fault = proxy.fault(api_name="Produce", topic=topic_name, error="INVALID_RECORD", probability=0.3, seed=5)
            said = pool.map(lambda client: codes([client], topic_name, 10), producers(proxy.bootstrap))
            failed = sum(len(failing(each)) for each in said)
            assert (fault.fired, fault.calls) == (failed, 10 * CLIENTS)
            counts.append(failed)
    assert counts[0] == counts[1] > 0
