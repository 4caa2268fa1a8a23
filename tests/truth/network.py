"""Hosts with addresses of their own: namespaces on one bridge, where dumpcap hears all of them. Root only."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka.processes import eventually, spawn, stop

PROGRAMS = ("ip", "tc", "dumpcap", "editcap", "mergecap")


def run(*words: str) -> None:
    """Run a program. Raises RuntimeError with what it complained of."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Network:
    """A bridge. *number*, the workload's place among all, decides about its addresses: two share none, one cannot run twice."""

    def __init__(self, number: int) -> None:
        self._subnet = f"10.{64 + number % 128}.{number // 128}"
        self._bridge = f"kt{number}"
        self._hosts: dict[str, str] = {}
        self._distances: list[subprocess.Popen[bytes]] = []
        run("ip", "link", "add", self._bridge, "type", "bridge")
        run("ip", "address", "add", f"{self._subnet}.1/24", "dev", self._bridge)
        run("ip", "link", "set", self._bridge, "up")

    def address(self, host: str) -> str:
        """The address of a host, which is made when it is first named."""
        if host not in self._hosts:
            self._hosts[host] = f"{self._subnet}.{len(self._hosts) + 11}"
            inside, outer = self._namespace(host), f"{self._bridge}-{len(self._hosts)}"
            run("ip", "netns", "add", inside)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", inside)
            run("ip", "link", "set", outer, "master", self._bridge, "up")
            run("ip", "-n", inside, "address", "add", f"{self._hosts[host]}/24", "dev", "eth0")
            run("ip", "-n", inside, "link", "set", "eth0", "up")
            run("ip", "-n", inside, "link", "set", "lo", "up")
        return self._hosts[host]

    def inside(self, host: str) -> list[str]:
        """The words that run a program on a host."""
        self.address(host)
        return ["ip", "netns", "exec", self._namespace(host)]

    def _outer(self, host: str) -> str:
        """The end on the bridge of a host's link."""
        self.address(host)
        return f"{self._bridge}-{list(self._hosts).index(host) + 1}"

    def limit(self, host: str, kilobits: int) -> None:
        """Let so many kilobits a second through to a host."""
        rate = ("tbf", "rate", f"{kilobits}kbit", "burst", "5kb", "latency", "3s")
        run("tc", "qdisc", "add", "dev", self._outer(host), "root", *rate)

    def limit_from(self, host: str, kilobits: int) -> None:
        """Let so many kilobits a second through from a host."""
        rate = ("tbf", "rate", f"{kilobits}kbit", "burst", "5kb", "latency", "3s")
        run(*self.inside(host), "tc", "qdisc", "add", "dev", "eth0", "root", *rate)

    def delay(self, host: str, milliseconds: int) -> None:
        """Have frames to and from a host arrive so much later."""
        outer = self._outer(host)
        inner, other = f"{outer}a", f"{outer}b"
        run("ip", "link", "add", inner, "type", "veth", "peer", "name", other)
        for name in (inner, other):
            run("ip", "link", "set", name, "up")
        run("ip", "link", "set", other, "master", self._bridge)
        run("ip", "link", "set", outer, "nomaster")
        words = [sys.executable, str(Path(__file__).with_name("distance.py")), outer, inner, str(milliseconds)]
        self._distances.append(subprocess.Popen(words))

    @contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """Let nothing through to or from a host."""
        run("ip", "link", "set", self._outer(host), "down")
        try:
            yield
        finally:
            run("ip", "link", "set", self._outer(host), "up")

    def _namespace(self, host: str) -> str:
        return f"{self._bridge}-{host}"

    def capture(self, file: Path, ports: str, *, way: str = "", snap: int = 0) -> "Capture":
        """Begin to write what passes the bridge from or to *ports*, a range or a number.

        *way*: dst for what goes to the ports only, src for what comes from them; *snap*: bytes of each packet, 0 for all.
        """
        return Capture(self._bridge, file, f"tcp {way} portrange {ports}", snap)

    def close(self) -> None:
        for distance in self._distances:
            distance.kill()
            distance.wait()
        for host in self._hosts:
            subprocess.run(["ip", "netns", "delete", self._namespace(host)], check=False, capture_output=True)
            subprocess.run(["ip", "link", "delete", f"{self._outer(host)}a"], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self._bridge], check=False, capture_output=True)


class Capture:
    """A running dumpcap."""

    def __init__(self, bridge: str, file: Path, what: str, snap: int) -> None:
        self._file, self._raw = file, file.with_suffix(".raw")
        log = file.with_suffix(".dumpcap.log")
        words = ["dumpcap", "-q", "-B", "64", "-i", bridge, "-s", str(snap), "-f", what, "-w", str(self._raw)]
        self._process = spawn(words, log)
        eventually(lambda: "File:" in log.read_text(), what="dumpcap runs")

    def end(self) -> None:
        """Write nothing of what comes from now on."""
        stop(self._process, patience=10)

    def close(
        self,
        secrets: Path | None = None,
        jump: tuple[float, float] | None = None,
        hole: tuple[float, float] | None = None,
    ) -> None:
        """End it; without what dumpcap says of this machine; with the TLS keys of *secrets* inside.

        *jump*: when the capture's clock was set, and by how many seconds. *hole*: from when to when it has no packets.
        """
        self.end()
        if jump:
            self._join(jump[0], jump[0], jump[1])
        if hole:
            self._join(*hole)
        plain, whole = self._file.with_suffix(".plain"), self._file.with_suffix(".whole")
        run("editcap", "-F", "pcap", str(self._raw), str(plain))
        inject = ["--inject-secrets", f"tls,{secrets}"] if secrets else []
        run("editcap", *inject, "-F", "pcapng", str(plain), str(whole))
        self._file.write_bytes(gzip.compress(whole.read_bytes(), 9, mtime=0))
        for file in (self._raw, plain, whole, self._file.with_suffix(".dumpcap.log")):
            file.unlink()

    def _join(self, until: float, since: float, seconds: float = 0) -> None:
        """Keep what was before *until*, and what was after *since* with its times set by so many seconds."""
        before, after = self._file.with_suffix(".before"), self._file.with_suffix(".after")
        run("editcap", "-B", f"{until:.6f}", str(self._raw), str(before))
        run("editcap", "-A", f"{since:.6f}", "-t", f"{seconds:g}", str(self._raw), str(after))
        run("mergecap", "-a", "-w", str(self._raw), str(before), str(after))
        before.unlink()
        after.unlink()
