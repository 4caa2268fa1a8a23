"""`kproxy replay` as people run it: wrong usage, exit status, dry runs; with real brokers in tests/interop/test_replay.py."""

import pytest

from tests.support.captured import CAPTURES
from tests.support.command import kproxy
from tests.support.ports import free_ports
from tests.support.replayed import capture

WRONG = {
    "no port": (["--to", "kafka"], 'it has no port: write "host:port"'),
    "a speed that is none": (["--to", "h:1", "--speed", "fast"], "a factor from 0.001 to 100,000, or max"),
    "a negative speed": (["--to", "h:1", "--speed", "-1"], "-1 is no speed"),
    "half a key pair": (["--to", "h:1", "--tls-key", "k.pem"], "--tls-certificate and --tls-key belong together"),
    "two ways to verify": (["--to", "h:1", "--tls-no-verify", "--tls-ca", "a.pem"], "leave out one"),
    "a condition that is none": (["--to", "h:1", "--where", "apiName ="], "--where"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", capture(1), *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_sources_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", "missing.pcap", "--to", "h:1") == 2
    assert "missing.pcap: no such file" in capsys.readouterr().err
    assert kproxy("replay", CAPTURES, "--to", "h:1") == 2
    assert "is a directory" in capsys.readouterr().err
    assert kproxy("replay", CAPTURES / "README.md", "--to", "h:1") == 2
    assert "README.md" in capsys.readouterr().err


def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", capture(1), "--to", f"127.0.0.1:{free_ports(1)}") == 1
    assert "refused" in capsys.readouterr().err.lower()
