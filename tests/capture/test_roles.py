"""Who is the server, from the weakest evidence to the strongest."""

from kproxy.capture.roles import Endpoints


def key(low_port: int, high_port: int) -> bytes:
    return b"\x0a\0\0\5" + low_port.to_bytes(2, "big") + b"\x0a\0\0\x09" + high_port.to_bytes(2, "big")


def test_nothing_known_the_lower_port_serves() -> None:
    assert Endpoints().guess_client(key(51234, 21101)) == 0
    assert Endpoints().guess_client(key(21101, 51234)) == 1


def test_the_end_of_several_flows_serves() -> None:
    endpoints = Endpoints()
    for port in (40_000, 40_001, 40_002):
        endpoints.count(key(port, 50_000))
    assert endpoints.guess_client(key(40_000, 50_000)) == 0


def test_a_port_of_kafka_serves_whatever_else_was_seen() -> None:
    endpoints = Endpoints()
    for port in (9092, 9093, 9094):
        endpoints.count(key(5000, port))
    assert endpoints.guess_client(key(5000, 9099)) == 0
    assert endpoints.guess_client(key(9092, 5000)) == 1


def test_who_accepted_a_connection_serves_whatever_its_port() -> None:
    endpoints = Endpoints()
    endpoints.accepted(key(9092, 60_000), 0)
    assert endpoints.guess_client(key(9092, 60_000)) == 0
    endpoints.accepted(key(61_000, 50_000), 1)
    assert endpoints.guess_client(key(61_000, 50_000)) == 1


def test_what_is_remembered_is_bounded() -> None:
    endpoints = Endpoints()
    for i in range(70_000):
        endpoints.count(i.to_bytes(4, "big") + b"\0\1" + i.to_bytes(4, "little") + b"\0\2")
        endpoints.accepted(i.to_bytes(4, "big") + b"\0\1" + bytes(6), 1)
    assert len(endpoints._flows) <= 65_537
    assert len(endpoints._servers) <= 65_536
