"""kproxy open: it serves a capture until it is interrupted, and says what is wrong."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli import main
from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually

ORDERS = CAPTURES / "01-java-produce-consume-group.pcap"


def test_it_serves_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "kproxy", "open", "--no-browser", str(ORDERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            address = first.split(" is at http://")[1].strip()
            place, _, query = address.partition("/")
            connection = http.client.HTTPConnection(place, timeout=60)
            connection.request("GET", f"/{query}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 303
            cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
            connection.request("GET", "/page/api/source", headers={"Cookie": cookie})
            assert ORDERS.name in connection.getresponse().read().decode()
            connection.request("GET", "/page/api/events", headers={"Cookie": cookie})
            events = connection.getresponse()
            assert events.readline() == b"event: rows\n"
            assert events.readline().startswith(b'data: {"exchanges":')
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, "as its help says"


def test_an_interrupt_ends_it_although_nobody_writes_to_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    command = [sys.executable, "-m", "kproxy", "open", "--no-browser", str(tmp_path / "fifo")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "fifo is at http://" in process.stdout.readline()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a capture"),
        (["nothing.pcap"], "no such file"),
        (["--spill", "nowhere", str(ORDERS)], "nowhere is no directory"),
        (["--port", "70000", str(ORDERS)], "port"),
        (["--keylog", "nothing.keys", str(ORDERS)], "--keylog nothing.keys: cannot be opened"),
    ],
)
def test_wrong_usage(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["open", *words])
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemExit) as ended:
            main(["open", "--no-browser", "--port", str(port), str(ORDERS)])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"kproxy: 127.0.0.1:{port}: Address already in use: choose another --port\n"


@pytest.mark.parametrize(
    ("remote", "sentence"),
    [(True, "run there: ssh -L {port}:127.0.0.1:{port} "), (False, "no browser could be started")],
)
def test_where_there_is_no_browser_it_says_what_to_do(remote: bool, sentence: str) -> None:
    environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and "SSH" not in name}
    environment |= {"SSH_CONNECTION": "192.0.2.1 5000 192.0.2.2 22"} if remote else {}
    command = [sys.executable, "-m", "kproxy", "open", str(ORDERS)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            port = process.stdout.readline().split("127.0.0.1:")[1].partition("/")[0]
            assert sentence.format(port=port) in process.stderr.readline()
        finally:
            process.terminate()


def test_the_token_is_not_among_the_arguments_of_the_browser(tmp_path: Path) -> None:
    arguments = tmp_path / "arguments"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {arguments}.new && mv {arguments}.new {arguments}\n')
    browser.chmod(0o700)
    environment = {name: value for name, value in os.environ.items() if "SSH" not in name}
    environment |= {"BROWSER": f"{browser} %s", "DISPLAY": ":0"}
    command = [sys.executable, "-m", "kproxy", "open", str(ORDERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            printed = process.stdout.readline().rpartition(" ")[2].strip()
            eventually(arguments.exists, patience=60, what="the browser is started")
            started_with = arguments.read_text().strip()
            address, _, token = printed.partition("?token=")
            assert started_with.startswith(f"{address}?token=") and token not in started_with
            assert [visited(started_with) for _ in range(2)] == [303, 401]
            assert visited(printed) == 303
        finally:
            process.terminate()


def visited(address: str) -> int:
    """The status of the answer there."""
    place, _, query = address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(place, timeout=60)
    try:
        connection.request("GET", f"/{query}")
        return connection.getresponse().status
    finally:
        connection.close()
