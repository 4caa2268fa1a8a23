"""`kproxy doctor` as people run it: exit status, JSON, mistakes of the configuration, wrong usage."""

import json
from pathlib import Path

from tests.cli.conftest import Kproxy
from tests.support.ports import free_ports


def test_a_port_where_nothing_listens(kproxy: Kproxy) -> None:
    port = free_ports(1)
    code, out, errors = kproxy(
        "doctor", "--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{free_ports(1)}"
    )
    assert code == 4
    assert f"PROBLEM  default: 127.0.0.1:{port}: nothing listens on that port\n         → correct the port" in out
    assert out.splitlines()[-1].startswith("1 problem")
    assert errors == ""


def test_json_is_an_object_a_line(kproxy: Kproxy) -> None:
    port = free_ports(1)
    _, out, _ = kproxy(
        "doctor", "--format", "json", "--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", "off"
    )
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["subject"] for one in found if one["state"] == "problem"] == [f"default: 127.0.0.1:{port}"]


def test_a_configuration_of_another_time(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("listen: :19092\nclusters:\n- {listen: ':19092', bootstrp: [kafka:9092]}\n", encoding="utf-8")
    code, out, _ = kproxy("doctor", "-c", str(file))
    assert code == 4
    assert f"PROBLEM  configuration: {file}:1:1: listen: unknown name" in out
    assert ": clusters[0].bootstrp: unknown name: did you mean bootstrap?" in out


def test_wrong_usage(kproxy: Kproxy) -> None:
    code, out, errors = kproxy("doctor")
    assert (code, out) == (2, "")
    assert "--listen" in errors and "it is missing" in errors
    code, out, errors = kproxy("doctor", "--admin", f"127.0.0.1:{free_ports(1)}")
    assert code == 2 and "no kproxy answers at" in errors


def test_properties_that_cannot_be_used(kproxy: Kproxy, tmp_path: Path) -> None:
    words = ["--listen", ":19092", "--bootstrap", "127.0.0.1:1", "--command-config"]
    code, out, errors = kproxy("doctor", *words, str(tmp_path / "none"))
    assert code == 2 and f"{tmp_path / 'none'}: No such file or directory" in errors
    (tmp_path / "client.properties").write_text("security.protocol=SASL_SSL\npassword=secret\n", encoding="utf-8")
    code, out, errors = kproxy("doctor", *words, str(tmp_path / "client.properties"))
    assert code == 2 and "sasl.mechanism is missing" in errors
    assert "secret" not in errors + out
