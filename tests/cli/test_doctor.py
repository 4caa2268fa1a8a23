"""`kproxy doctor` as people run it: exit status, JSON, mistakes of the configuration, wrong usage."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.ports import free_ports


def doctor(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from kproxy.cli import main; main()", "doctor", *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)


def test_a_port_where_nothing_listens() -> None:
    port = free_ports(1)
    done = doctor("--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{free_ports(1)}")
    assert done.returncode == 4
    assert (
        f"PROBLEM  default: 127.0.0.1:{port}: nothing listens on that port\n         → correct the port" in done.stdout
    )
    assert done.stdout.splitlines()[-1].startswith("1 problem")
    assert done.stderr == ""


def test_json_is_an_object_a_line() -> None:
    port = free_ports(1)
    done = doctor("--format", "json", "--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", "off")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["subject"] for one in found if one["state"] == "problem"] == [f"default: 127.0.0.1:{port}"]


def test_a_configuration_of_another_time(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("listen: :19092\nclusters:\n- {listen: ':19092', bootstrp: [kafka:9092]}\n", encoding="utf-8")
    done = doctor("-c", str(file))
    assert done.returncode == 4
    assert f"PROBLEM  configuration: {file}:1:1: listen: unknown name" in done.stdout
    assert ": clusters[0].bootstrp: unknown name: did you mean bootstrap?" in done.stdout


def test_wrong_usage() -> None:
    done = doctor()
    assert (done.returncode, done.stdout) == (2, "")
    assert "--listen" in done.stderr and "it is missing" in done.stderr
    done = doctor("--admin", f"127.0.0.1:{free_ports(1)}")
    assert done.returncode == 2 and "no kproxy answers at" in done.stderr


def test_properties_that_cannot_be_used(tmp_path: Path) -> None:
    words = ["--listen", ":19092", "--bootstrap", "127.0.0.1:1", "--command-config"]
    done = doctor(*words, str(tmp_path / "none"))
    assert done.returncode == 2 and f"{tmp_path / 'none'}: No such file or directory" in done.stderr
    (tmp_path / "client.properties").write_text("security.protocol=SASL_SSL\npassword=secret\n", encoding="utf-8")
    done = doctor(*words, str(tmp_path / "client.properties"))
    assert done.returncode == 2 and "sasl.mechanism is missing" in done.stderr
    assert "secret" not in done.stderr + done.stdout
