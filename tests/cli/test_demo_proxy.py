"""The demo's proxy and its capture as text: a file is followed as it grows and when another takes its place."""

import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.cli import demo_proxy
from kproxy.cli.demo_proxy import Proxy, Scrolling, free_ports
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
    scrolling = Scrolling(capture)
    capture.write_bytes(b"one ")
    wait_for(seen, b"one ")
    with capture.open("ab") as growing:
        growing.write(b"two ")
    wait_for(seen, b"one two ")
    assert not scrolling.ended
    with capture.open("ab") as growing:
        growing.write(b"three ")
        growing.flush()
        capture.rename(tmp_path / "trace.1.pcapng")
        capture.write_bytes(b"four ")
        wait_for(seen, b"one two three four ")
    with capture.open("ab") as growing:
        growing.write(b"five")
    scrolling.stop()
    assert seen.read_bytes() == b"one two three four five"
    assert scrolling.ended


def test_a_missing_capture_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_proxy, "_kproxy", copying(tmp_path / "seen"))
    Scrolling(tmp_path / "trace.pcapng").stop()
    assert (tmp_path / "seen").read_bytes() == b""


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
