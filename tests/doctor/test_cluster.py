"""A cluster whose brokers advertise what cannot be reached, or kproxy itself; and node ids that are not the cluster's."""

from pathlib import Path

import pytest

from kproxy.doctor.cluster import Listening
from kproxy.doctor.findings import State
from tests.support.doctored import broker, config_of, findings, problems
from tests.support.links import run
from tests.support.ports import free_ports


def test_a_cluster_that_is_right(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker() as port:
            found = await findings(config_of(tmp_path, f"localhost:{port}"))
            assert problems(found) == []
            assert any("are reached at the addresses that they advertise" in one.what for one in found)

    run(work)


def test_an_advertised_address_that_is_not_reached(tmp_path: Path) -> None:
    async def work() -> None:
        dead = free_ports(1)
        async with broker() as alive, broker([(1, "127.0.0.1", alive), (2, "127.0.0.1", dead)]) as port:
            [problem] = problems(await findings(config_of(tmp_path, f"127.0.0.1:{port}")))
            assert problem.startswith("default: broker 2: it advertises ")
            assert f"127.0.0.1:{dead}" in problem and "nothing listens" in problem

    run(work)


@pytest.mark.parametrize("port", [70_000, -1])
def test_an_advertised_port_that_is_none(tmp_path: Path, port: int) -> None:
    async def work() -> None:
        async with broker([(7, "127.0.0.1", port)]) as bootstrap:
            said = problems(await findings(config_of(tmp_path, f"127.0.0.1:{bootstrap}")))
            assert (
                f"default: broker 7: it advertises 127.0.0.1:{port}, which kproxy cannot use: {port} is no port" in said
            )

    run(work)


def test_a_broker_that_advertises_kproxy(tmp_path: Path) -> None:
    async def work() -> None:
        own = free_ports(1)
        async with broker([(1, "localhost", own)]) as port:
            config = config_of(tmp_path, f"127.0.0.1:{port}", cluster_listen=f"0.0.0.0:{own}")
            [problem] = problems(await findings(config))
            assert f"advertises localhost:{own}, where kproxy itself listens" in problem

    run(work)


def test_a_bootstrap_that_is_kproxy(tmp_path: Path) -> None:
    async def work() -> None:
        own = free_ports(1)
        config = config_of(tmp_path, f"localhost:{own}", cluster_listen=f":{own}")
        assert problems(await findings(config)) == [
            f"default: localhost:{own}: kproxy itself listens there: it would connect to itself"
        ]

    run(work)


def test_only_addresses_of_this_machine_are_its_own(tmp_path: Path) -> None:
    listening = Listening(config_of(tmp_path, "kafka:9092", cluster_listen=":19092"))
    assert listening.is_own("127.0.0.1", 19_092) and listening.is_own("::1", 19_092)
    assert not listening.is_own("127.0.0.1", 19_999)
    assert not listening.is_own("192.0.2.77", 19_092)  # RFC 5737: nobody's
    assert not listening.is_own("kafka.invalid", 19_092)
    assert not listening.is_own("b" * 64 + ".test", 19_092)  # RFC 1035: a label has 63 characters at the most


def test_node_ids_are_compared_with_the_clusters(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker() as alive, broker([(1, "127.0.0.1", alive), (5, "127.0.0.1", alive)]) as port:
            first = free_ports(10)
            addresses = {"node_ids": [1, 2], "first_port": first}
            found = await findings(config_of(tmp_path, f"127.0.0.1:{port}", cluster_addresses=addresses))
            said = {one.state: one.what for one in found if one.subject == "default: node ids"}
            assert said[State.WARNING] == "addresses.node_ids lacks 5, which the cluster has"
            assert said[State.NOTE].startswith("addresses.node_ids has 2, ")

    run(work)


def test_a_node_id_beyond_the_last_port(tmp_path: Path) -> None:
    async def work() -> None:
        async with broker() as alive, broker([(60_000, "127.0.0.1", alive)]) as port:
            config = config_of(tmp_path, f"127.0.0.1:{port}", cluster_addresses={"first_port": 20_000})
            [problem] = problems(await findings(config))
            assert "broker 60000 would get port 80000, above 65535" in problem

    run(work)


def test_transparent_mode_knows_no_broker(tmp_path: Path) -> None:
    async def work() -> None:
        config = config_of(tmp_path, "x:1", cluster_bootstrap=[], cluster_addresses={"mode": "transparent"})
        assert problems(await findings(config)) == []

    run(work)
