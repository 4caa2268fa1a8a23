"""`kproxy run` as a person runs it: mistakes in its options, and the process that it becomes."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.openbao import OpenBao, bao
from tests.support.ports import free_ports
from tests.support.supervised import Supervised

__all__ = ["bao"]

ROOT = Path(__file__).parents[2]
PORTS = 5  # of a listener in port mode: its own, and those kept for nodes 0 to 3


@contextmanager
def started(*words: str) -> Iterator[Supervised]:
    command = [sys.executable, "-m", "kproxy", "run", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        running = Supervised(process)
        try:
            yield running
        finally:
            running.close()


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        ((), ["kproxy: --listen: it is missing (or -c FILE)", "kproxy: --bootstrap: it is missing (or -c FILE)"]),
        (("--listen", ":1", "--bootstrap", "b"), ['kproxy: --bootstrap: "b": it has no port: write "host:port"']),
        (
            ("--listen", ":1", "--bootstrap", "b:1", "--fault", "api=Produce error=NOT_LEADER"),
            [
                'kproxy: the fault "api=Produce error=NOT_LEADER": there is no error "NOT_LEADER": '
                "did you mean NOT_LEADER_OR_FOLLOWER or UNKNOWN_LEADER_EPOCH?"
            ],
        ),
        (
            ("--listen", ":1", "--bootstrap", "b:1", "--fault", "leader_mved"),
            [
                'kproxy: the fault "leader_mved": "leader_mved" is no scenario and no NAME=VALUE: '
                "did you mean leader_moved?"
            ],
        ),
        (("-c", "/no/such.yaml"), ["/no/such.yaml: No such file or directory"]),
        (("--listen", ":1", "-c", "x.yaml"), ["x.yaml: No such file or directory"]),
    ],
)
def test_mistakes_in_options(words: tuple[str, ...], sentences: list[str]) -> None:
    with started(*words) as process:
        assert process.ended() == 2
        assert process.sentences == sentences


def test_it_becomes_the_supervisor_and_listens() -> None:
    port, admin = free_ports(PORTS), free_ports()
    listen = f"127.0.0.1:{port}"
    with started("--listen", listen, "--bootstrap", "127.0.0.1:9", "--admin", f"127.0.0.1:{admin}") as process:
        serving = process.until("serving")
        assert serving["listen"] == [listen]
        command = Path(f"/proc/{process.process.pid}/cmdline").read_bytes()
        assert command.rstrip(b"\0").decode() == f"kproxy run --listen {listen} --bootstrap 127.0.0.1:9"
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
        with urllib.request.urlopen(
            f"http://127.0.0.1:{admin}/healthz", timeout=20
        ) as answer:  # no broker: not /readyz
            assert answer.status == 200
        assert process.tell(signal.SIGTERM).ended() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=20)


def test_a_port_alone_is_listened_on_at_every_interface() -> None:
    port = free_ports(PORTS)
    with started("--listen", f":{port}", "--bootstrap", "127.0.0.1:9", "--admin", "off", "--no-analysis") as process:
        assert process.until("serving")["listen"] == [f":{port}"]
        for host in ("127.0.0.1", "127.0.0.2"):
            socket.create_connection((host, port), timeout=20).close()
        assert process.tell(signal.SIGTERM).ended() == 0


@pytest.mark.parametrize("share", [False, True], ids=["alone", "shared"])
def test_an_address_in_use_is_one_sentence(share: bool) -> None:
    with socket.socket() as other:
        if share:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        with started("--listen", listen, "--bootstrap", "127.0.0.1:9", "--admin", "off", "--no-analysis") as process:
            assert process.ended() == 1
            [sentence] = process.sentences
            assert sentence.startswith(f"kproxy: {listen}: Address already in use: another kproxy? see ss -ltnp")


def test_an_admin_address_in_use_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        admin = f"127.0.0.1:{other.getsockname()[1]}"
        listen = f"127.0.0.1:{free_ports(PORTS)}"
        with started("--listen", listen, "--bootstrap", "127.0.0.1:9", "--admin", admin) as process:
            assert process.ended() == 1
            assert process.sentences == [
                f"kproxy: {admin}: Address already in use: another kproxy? see ss -ltnp, or choose another address"
                " for admin, or off"
            ]


def rss(pid: int) -> int:
    """KiB, shared pages counted in full."""
    fields = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(field.split()[1]) for field in fields if field.startswith("Rss:"))


def test_promise_of_memory_of_fresh_processes(tmp_path: Path) -> None:
    """The issue's figures: a worker at most 45 MB, all processes together at most 150 MB; only who reads the file has YAML."""
    cluster = {"listen": f"127.0.0.1:{free_ports(PORTS)}", "bootstrap": ["127.0.0.1:9"]}
    (file := tmp_path / "kproxy.yaml").write_text(
        json.dumps({"clusters": [cluster], "admin": f"127.0.0.1:{free_ports()}"})
    )
    with started("-c", str(file)) as process:
        process.until("serving")
        own = process.process.pid
        assert "_yaml" not in Path(f"/proc/{own}/maps").read_text(encoding="utf-8")
        children = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii").split()
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in map(int, children)}
        worker = next(pid for pid, command in commands.items() if b"kproxy: worker 0" in command)
        assert rss(worker) <= 45_000
        assert rss(own) + sum(rss(pid) for pid in commands) <= 150_000


RULE = """
clusters:
- listen: "{listen}"
  bootstrap: ["127.0.0.1:9"]
  filters:
  - use: encrypt
    with:
      keys: {{use: vault, with: {{url: "{url}", token: "file:{token}"}}, timeout: 2}}
      rules:
      - topics: ["*"]
        key: not-there
        record_keys: {{key: kek, wrapped: "{wrapped}"}}
admin: "off"
analysis: {{enabled: false}}
"""


@pytest.mark.slow
def test_record_keys_that_the_key_service_does_not_give_end_the_start(bao: OpenBao, tmp_path: Path) -> None:
    """One that is away does not. Keys of values are not asked for: consumers may have no right to make data keys."""
    (token := tmp_path / "token").write_text(bao.token)
    for key in ("kek", "other"):
        bao.ask("POST", f"transit/keys/{key}", {})
    wrapped, of_another = (bao.encrypted(key, bytes(32)) for key in ("kek", "other"))
    listen = f"127.0.0.1:{free_ports(PORTS)}"

    def configured(wrapped: str) -> list[str]:
        words = {"listen": listen, "url": bao.url, "token": token, "wrapped": b64encode(wrapped.encode()).decode()}
        (file := tmp_path / "kproxy.yaml").write_text(RULE.format(**words))
        return ["-c", str(file)]

    def refused(words: list[str]) -> str:
        with started(*words) as process:
            assert process.ended() == 2
            [sentence] = process.sentences
        at, _, why = sentence.partition(": clusters[0].filters[0].with.rules[0].record_keys: ")
        assert at == f"{tmp_path}/kproxy.yaml:12:22", sentence
        return why

    assert refused(configured(of_another)).startswith("the key kek has not wrapped this")
    good = configured(wrapped)
    token.write_text("another token")
    assert "the token has no right to this" in refused(good)
    token.write_text(bao.token)
    asked = len(bao.requests())
    with started(*good) as process:
        process.until("serving")
        assert bao.requests()[asked:] == ["update transit/decrypt/kek"], "once, and not by each worker"
        configured(of_another)
        place = {"path": "clusters[0].filters[0].with.rules[0].record_keys", "line": 12, "column": 22}
        assert "has not wrapped this" in process.until("a mistake in the configuration", **place)["reason"]
        process.until("the configuration before stays", count=1)
        configured(wrapped)
        process.tell(signal.SIGHUP).until("the configuration was taken")
        assert process.tell(signal.SIGTERM).ended() == 0
    bao.seal()
    with started(*good) as process:
        assert "503" in process.until("encrypt: the key service is away")["reason"]
        process.until("serving")
        assert process.tell(signal.SIGTERM).ended() == 0
