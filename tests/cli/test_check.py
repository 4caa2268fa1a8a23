"""`kproxy check` as a person runs it."""

import json
from pathlib import Path

import jsonschema
import pytest

from kproxy.cli import main

GOOD = "clusters:\n  - listen: 127.0.0.1:19092\n    bootstrap: [kafka:9092]\n"


def check(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["check", *words])
    return int(caught.value.code or 0)


def test_what_would_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD, encoding="utf-8")
    assert check(str(file)) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: no mistakes",
        "default: 127.0.0.1:19092 -> kafka:9092; brokers on port 19093 + node id",
        "1 worker, analysis for metrics only",
        "admin on 127.0.0.1:9644",
    ]


def test_every_mistake_on_a_line_that_editors_can_jump_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD + "worker: 2\nadmin: nowhere\n", encoding="utf-8")
    assert check(str(file)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [[f"{file}:4:1", "worker"], [f"{file}:5:8", "admin"]]
    assert "did you mean workers?" in lines[0]


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("/no/such/k.yaml") == 2
    assert capsys.readouterr().err == "/no/such/k.yaml: No such file or directory\n"
    assert check() == 2
    assert "no FILE to check" in capsys.readouterr().err


def test_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--schema") == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "clusters" in str(schema)
