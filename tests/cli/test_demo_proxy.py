"""The demo's proxy, and the digest of its capture, which is followed as it grows and when another takes its place."""

import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.cli import demo_proxy
from kproxy.cli.demo_proxy import Digest, Proxy, free_ports
from kproxy.errors import KproxyError


def test_free_ports_are_free_in_a_row() -> None:
    first = free_ports(5)
    for port in range(first, first + 5):
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))


def copying(target: Path) -> Callable[..., "subprocess.Popen[bytes]"]:
    """In place of kproxy decode: what copies its input to *target*."""

    def start(words: list[str], **streams: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["sh", "-c", 'exec cat > "$0"', str(target)], **streams)  # type: ignore[call-overload,no-any-return]

    return start


def test_a_capture_is_followed_to_its_end_part_after_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture, seen = tmp_path / "trace.pcapng", tmp_path / "seen"
    monkeypatch.setattr(demo_proxy, "_kproxy", copying(seen))
    digest = Digest(capture, print)
    capture.write_bytes(b"one ")
    wait_for(seen, b"one ")
    with capture.open("ab") as growing:
        growing.write(b"two ")
    wait_for(seen, b"one two ")
    with capture.open("ab") as growing:
        growing.write(b"three ")
        growing.flush()
        capture.rename(tmp_path / "trace.1.pcapng")
        capture.write_bytes(b"four ")
        wait_for(seen, b"one two three four ")
    with capture.open("ab") as growing:
        growing.write(b"five")
    digest.stop()
    assert seen.read_bytes() == b"one two three four five"


def test_a_missing_capture_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_proxy, "_kproxy", copying(tmp_path / "seen"))
    Digest(tmp_path / "trace.pcapng", print).stop()
    assert (tmp_path / "seen").read_bytes() == b""


def test_what_is_new_is_shown_and_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(api: str, client_id: str, rest: str = "orders-0  1 record") -> str:
        return f"09:00:00.000001  10.0.0.1:5000 → 10.0.0.2:9092  0.1 ms  {api} v10             {client_id}              {rest}"

    produced, failed = line("Produce", "shop"), line("Produce", "web", "NOT_LEADER_OR_FOLLOWER  orders-0")
    joined = line("JoinGroup", "billing-1", "group billing  range")
    (tmp_path / "decoded.txt").write_text(
        "\n".join([produced] * 3 + [failed] * 5 + [joined] * 2) + "\n", encoding="utf-8"
    )

    def start(words: list[str], **streams: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["cat", str(tmp_path / "decoded.txt")], **streams)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(demo_proxy, "_kproxy", start)
    shown: list[str] = []
    digest = Digest(tmp_path / "trace.pcapng", shown.append)
    digest.stop()
    assert shown == [produced] + [failed] * 4 + [joined] * 2
    assert digest.left_out == {"Produce": 3}


def wait_for(path: Path, content: bytes) -> None:
    paused = threading.Event()
    for _ in range(500):
        if path.exists() and path.read_bytes() == content:
            return
        paused.wait(0.02)
    raise AssertionError(f"{path.read_bytes()!r}, not {content!r}")


def test_a_proxy_that_cannot_start_says_why(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path, ["no port"])
    with pytest.raises(KproxyError, match=r"kproxy run ended at once \(2\): .*no port"):
        proxy.wait(threading.Event())
    assert proxy.metrics() == ""
    proxy.stop()
