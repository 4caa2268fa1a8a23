"""kproxy open: it serves a capture until it is interrupted, and says what is wrong."""

import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.cli import main
from tests.support.traffic import CAPTURES

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
        assert process.wait(60) in (0, 130)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a capture"),
        (["nothing.pcap"], "no such file"),
        (["--spill", "nowhere", str(ORDERS)], "nowhere is no directory"),
        (["--port", "70000", str(ORDERS)], "port"),
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
