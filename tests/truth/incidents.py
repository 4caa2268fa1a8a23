"""Workloads in which something goes wrong, and look-alikes in which it does not."""

from tests.truth.lab import Lab, workload


@workload("One of two members of a group is killed; the other one takes over when its session has ended.")
def member_killed(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    _stays, goes = (lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=6000) for n in (1, 2))
    lab.wait(8)
    killed = goes.kill()
    lab.wait(11)
    # Its last heartbeat was up to 3 s before; its session ends 6 s after that; the other one learns of it at its next heartbeat.
    lab.expect(
        "rebalances", at=killed + 6, within=4, group_id="billing", cause="session timeout", client_id="billing-2"
    )
