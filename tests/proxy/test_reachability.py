"""Whether a broker has been reached: every transition, and what the supervisor is told."""

from kproxy.config import Cluster
from kproxy.proxy.messages import BrokerReach, Message
from kproxy.proxy.reachability import Reach, Reachability

CLUSTER = Cluster(listen=":1", bootstrap=["b:1"])


def test_each_transition_is_told_once() -> None:
    told: list[Message] = []
    found = Reachability("orders", told.append)
    found.use(CLUSTER)
    assert found.state is Reach.UNKNOWN
    found.failed("b:1: Connection refused")
    found.failed("b:1: no answer in time")
    assert found.state is Reach.FAILING
    found.reached()
    found.reached()
    found.failed("later")
    assert found.state is Reach.REACHED
    assert told == [BrokerReach("orders", False, "b:1: Connection refused"), BrokerReach("orders", True)]


def test_other_brokers_are_not_known() -> None:
    found = Reachability("orders", lambda message: None)
    found.use(CLUSTER)
    found.reached()
    found.use(Cluster(listen=":2", bootstrap=["b:1"], name="other"))
    assert found.state is Reach.REACHED
    found.use(Cluster(listen=":1", bootstrap=["c:1"]))
    assert found.state is Reach.UNKNOWN
