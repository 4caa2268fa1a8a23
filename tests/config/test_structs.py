"""Defaults, against the brokers' own (Kafka's documentation, "Broker Configs")."""

import msgspec
import pytest

from kproxy.config import Cluster, Config, Limits, Timeouts


def test_limits_are_a_brokers() -> None:
    limits = Limits()
    assert limits.frame_size == 104_857_600  # socket.request.max.bytes
    assert limits.unauthenticated_frame_size == 524_288  # sasl.server.max.receive.size


def test_idle_connections_are_closed_by_the_broker_first() -> None:
    assert Timeouts().idle > 600  # connections.max.idle.ms


def test_a_configuration_goes_to_workers_as_json_and_comes_back() -> None:
    config = Config(clusters=[Cluster(listen=":1", bootstrap=["b:1"])])
    line = msgspec.json.encode(msgspec.to_builtins(config))
    assert msgspec.convert(msgspec.json.decode(line), Config) == config


def test_unknown_names_are_no_part_of_it() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"clusters": [{"listen": ":1"}], "x": 1}, Config)


def test_the_admin_port_is_this_machines_own() -> None:
    assert Config(clusters=[]).admin == "127.0.0.1:9644"
