"""What a login costs: to set up a connection with SCRAM on both sides of kproxy, and requests after it.

    python -m tests.bench.logins [--rounds 15] [--each 20] [--requests 20000]

Before a real broker, each way in turn, round by round. A connection is set up when its first Metadata is answered.

    straight    SCRAM-SHA-512 at the broker
    passed on   the same through kproxy, which only forwards
    both        SCRAM-SHA-512 at kproxy, and kproxy's own at the broker
    bare        through kproxy, to a listener without SASL: what a connection costs without any login

The client keeps SCRAM's slow hash, as kproxy does. Then requests on one connection, by a proxy with both logins and by one
without: CPU of the worker and of the analyzer a request, and system calls of the worker (strace, in rounds that are not timed).
"""

import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack

from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import CONVERSATIONS
from tests.bench.measuring import calls, cpu_of, options_of, spread, started
from tests.proxy.test_client_logins import write_users
from tests.support.kafka import fixtures
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.links import request
from tests.support.sockets import address

MECHANISM = "SCRAM-SHA-512"
HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3
NO_TOPICS = request(METADATA, 1, 7, pack(">i", 0))
TOGETHER = 50  # requests that are sent before their answers are read
Connect = Callable[[], socket.socket]


def answer(connected: socket.socket) -> bytes:
    """The next response, behind its correlation id."""
    size = int.from_bytes(connected.recv(4, socket.MSG_WAITALL), "big")
    return connected.recv(size, socket.MSG_WAITALL)[4:]


def ask(connected: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    connected.sendall(request(api_key, version, 7, body))
    return answer(connected)


def connect(where: str, *, logs_in: bool) -> socket.socket:
    """A connection on which the first Metadata was answered."""
    connected = socket.create_connection(address(where))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if logs_in:
        ask(connected, HANDSHAKE, 1, pack(">h", len(MECHANISM)) + MECHANISM.encode())
        conversation = CONVERSATIONS[MECHANISM](Credentials(MECHANISM, USER, PASSWORD), "")
        token = next(conversation)
        try:
            while True:
                said = ask(connected, AUTHENTICATE, 0, pack(">i", len(token)) + token)
                assert said[:2] == b"\0\0", said
                token = conversation.send(said[8 : 8 + int.from_bytes(said[4:8], "big")])
        except StopIteration:
            pass
    connected.sendall(NO_TOPICS)
    assert answer(connected)
    return connected


def ways(folder: Path, brokers: Cluster, proxies: dict[str, Proxy]) -> dict[str, Connect]:
    """Start *proxies*; return how to connect, by name."""
    (folder / "password").write_text(PASSWORD)
    users = write_users(folder / "users.json", **{USER: PASSWORD})
    authentication = {"mechanisms": [MECHANISM], "users": users}
    login = {"mechanism": MECHANISM, "username": USER, "password": f"file:{folder / 'password'}", "cleartext": True}
    proxies["both"] = both = Proxy(
        folder / "both", [cluster(brokers.bootstrap("SASL"), authentication=authentication, login=login)]
    )
    proxies["passed on"] = passed = Proxy(folder / "passed", [cluster(brokers.bootstrap("SASL"))])
    proxies["bare"] = bare = Proxy(folder / "bare", [cluster(brokers.bootstrap("PLAIN"))])
    for proxy in proxies.values():
        proxy.start()
    straight = brokers.bootstrap("SASL")[0]
    return {
        "straight": lambda: connect(straight, logs_in=True),
        "passed on": lambda: connect(passed.bootstrap(), logs_in=True),
        "both": lambda: connect(both.bootstrap(), logs_in=True),
        "bare": lambda: connect(bare.bootstrap(), logs_in=False),
    }


def ms_a_connection(make: Connect, count: int) -> float:
    """Milliseconds to set a connection up, the least of *count*, one after the other: others use the machine, too."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        connected = make()
        taken.append(time.perf_counter() - began)
        connected.close()
    return 1_000 * min(taken)


def exchange(connected: socket.socket, count: int) -> None:
    for _ in range(count // TOGETHER):
        connected.sendall(NO_TOPICS * TOGETHER)
        for _ in range(TOGETHER):
            answer(connected)


def us_a_request(connected: socket.socket, pids: list[int], count: int) -> float:
    before = cpu_of(pids)
    exchange(connected, count)
    return 1e6 * (cpu_of(pids) - before) / count


def calls_a_request(connected: socket.socket, pids: list[int], count: int) -> float:
    """System calls of the processes while they forward."""

    def work() -> int:
        exchange(connected, count)
        return count

    return calls(pids, work)


def main() -> None:
    options = options_of(__doc__, rounds=15, each=20, requests=20_000)
    with started() as folder:
        (folder / "kafka").mkdir()
        brokers = fixtures.started(folder / "kafka", NEWEST, secure=True)
        proxies: dict[str, Proxy] = {}
        try:
            connects = ways(folder, brokers, proxies)
            print("set-up of a connection, ms: the median of the least of each round")
            rows = [
                {name: ms_a_connection(make, options.each) for name, make in connects.items()}
                for _ in range(options.rounds + 1)
            ][1:]  # the first warms the broker
            for name in connects:
                ratios = [row[name] / row["straight"] for row in rows]
                print(
                    f"  {name:<10} {statistics.median(row[name] for row in rows):6.2f}  {spread(ratios, 2)} of straight"
                )
            _requests(connects, proxies, options.rounds, options.requests)
        finally:
            for proxy in proxies.values():
                proxy.close()
            brokers.close()


def _requests(connects: dict[str, Connect], proxies: dict[str, Proxy], rounds: int, count: int) -> None:
    names = ("bare", "passed on", "both")
    open_ = {name: connects[name]() for name in names}
    workers = {name: proxies[name].workers() for name in names}
    analyzers = {name: proxies[name].named("analyzer") for name in names}
    print(f"a request after it, of {rounds * count} by each way: CPU us of worker, of analyzer; system calls")
    rows = []
    for _ in range(rounds):
        row = {}
        for name in names:
            pids = workers[name], analyzers[name]
            before = cpu_of(pids[1])
            row[name] = (us_a_request(open_[name], pids[0], count), 1e6 * (cpu_of(pids[1]) - before) / count)
        rows.append(row)
    for name in names:
        worker, analyzer = (statistics.median(row[name][side] for row in rows) for side in (0, 1))
        ratios = spread([row[name][0] / row["bare"][0] for row in rows], 2)
        called = calls_a_request(open_[name], workers[name], 2_000)
        print(f"  {name:<10} {worker:6.2f}  {analyzer:6.2f}  {called:5.2f}  worker {ratios} of bare")


if __name__ == "__main__":
    main()
