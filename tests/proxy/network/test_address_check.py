"""An address that another process shares by SO_REUSEPORT is in use all the same."""

import errno
import socket

import pytest

from kproxy.config import Addresses, Cluster, Config
from kproxy.proxy.network.address_check import check_addresses_are_free


def config(port: int, **addresses: object) -> Config:
    return Config(clusters=[Cluster(listen=f"127.0.0.1:{port}", addresses=Addresses(**addresses))])  # type: ignore[arg-type]


def listener() -> socket.socket:
    shared = socket.socket()
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    shared.bind(("127.0.0.1", 0))
    shared.listen()
    return shared


def test_a_shared_port_is_in_use() -> None:
    with listener() as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            check_addresses_are_free(config(port))
    assert caught.value.errno == errno.EADDRINUSE
    assert caught.value.filename == f"127.0.0.1:{port}"
    check_addresses_are_free(config(port))  # free again; and probing leaves nothing behind
    check_addresses_are_free(config(port))


def test_so_are_ports_of_brokers() -> None:
    with listener() as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            check_addresses_are_free(config(port - 10, first_port=port - 3, node_ids=["2-3"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_one_family_in_use_is_enough(host: str) -> None:
    """ ":9092" takes both."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            check_addresses_are_free(Config(clusters=[Cluster(listen=f":{port}")]))
    assert caught.value.filename == f":{port}"


def test_a_name_that_is_none() -> None:
    cluster = Cluster(listen="host.invalid:9092")
    with pytest.raises(OSError, match=r"host\.invalid:9092"):
        check_addresses_are_free(Config(clusters=[cluster]))
