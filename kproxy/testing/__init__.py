"""For tests of programs that use Kafka: a cluster whose brokers fail as the test says, for any client, on the calls it names.

    proxy.py    Proxy: a kproxy of the test's own in front of a cluster; faults are added and removed while it runs
    plugin.py   the fixture kproxy_proxy of pytest, registered under the entry point ``pytest11``

    def test_a_moved_leader(kproxy_proxy):
        proxy = kproxy_proxy("localhost:9092")
        moved = proxy.fault(api_name="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)

        my_program(bootstrap_servers=proxy.bootstrap)

        assert moved.fired == 2

The options of a fault are those of the filter: `kproxy filters faults` lists them, with the scenarios:

    proxy.fault("coordinator_moved")                          # a scenario, with options of its own or not
    proxy.fault(api_name="Produce", topic="orders", disconnect=True, when="after", call=3)
    proxy.fault(api_name="Fetch", delay="2s", probability=0.1, seed=7, name="slow")
    proxy.faults["slow"].fired                                # by name, or from the fault that ``fault`` returns
    proxy.clear()                                             # all faults end; connections stay

``fault`` returns when the fault is in use: the next request that it selects is its call 1. All counts are exact and up to date:
what a client has seen is in them. Without pytest: ``with kproxy.testing.Proxy("localhost:9092") as proxy``.
The proxy listens on 127.0.0.1 and serves each broker on a port of its own, up to node id 99. It ends with the test, also when
that fails, is interrupted or is killed. The same faults on the command line and in YAML:

    kproxy run --listen :19092 --bootstrap kafka:9092 --fault "api_name=Produce error=NOT_LEADER_OR_FOLLOWER times=2"
    filters: [{use: faults, with: {faults: [{api_name: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 2}]}}]
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.testing.proxy import InjectedFault, Proxy

__all__ = ["InjectedFault", "Proxy"]


def __getattr__(name: str) -> object:
    """Load what is named when it is used first: pytest imports this package at each of its starts."""
    if name not in __all__:
        raise AttributeError(f"module 'kproxy.testing' has no attribute {name!r}")
    from kproxy.testing import proxy  # noqa: PLC0415

    return getattr(proxy, name)
