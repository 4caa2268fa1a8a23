"""`kproxy check` and `kproxy filters` as a person runs them."""

import json
from pathlib import Path

import jsonschema
import pytest

from kproxy.filters.loading import BUILT_IN
from tests.cli.conftest import Kproxy

GOOD = "clusters:\n  - listen: 127.0.0.1:19092\n    bootstrap: [kafka:9092]\n"


def test_what_would_run(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD, encoding="utf-8")
    code, out, _ = kproxy("check", file)
    assert code == 0
    assert out.splitlines() == [
        f"{file}: no mistakes",
        "default: 127.0.0.1:19092 -> kafka:9092; brokers on port 19093 + node id",
        "1 worker, analysis for metrics only",
        "admin on 127.0.0.1:9644",
    ]


def test_every_mistake_on_a_line_that_editors_can_jump_to(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD + "worker: 2\nadmin: nowhere\n", encoding="utf-8")
    code, out, errors = kproxy("check", file)
    assert (code, out) == (2, "")
    lines = errors.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [[f"{file}:4:1", "worker"], [f"{file}:5:8", "admin"]]
    assert "did you mean workers?" in lines[0]


def test_a_file_that_is_not_there(kproxy: Kproxy) -> None:
    assert kproxy("check", "/no/such/k.yaml") == (2, "", "/no/such/k.yaml: No such file or directory\n")
    code, _, errors = kproxy("check")
    assert code == 2 and "no FILE to check" in errors


def test_the_schema(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("check", "--schema")
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert code == 0 and "clusters" in str(schema)


def test_the_list_names_every_built_in_filter(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("filters")
    assert code == 0
    assert set(BUILT_IN) <= {line.split()[0] for line in out.splitlines()}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_filter_has_a_page(kproxy: Kproxy, name: str) -> None:
    code, out, _ = kproxy("filters", name)
    assert code == 0
    assert out.startswith(f"{name}\n\n")
    page = json.loads(kproxy("filters", name, "--format", "json")[1])
    assert page["name"] == name
    assert all(option["description"].endswith(".") for option in page["options"])


def test_the_page_of_a_users_filter(kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from kproxy.filters.contract import Filter\nclass Mine(Filter):\n    def __init__(self, prefix: str): ...\n"
    (tmp_path / "shown_filters.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "  prefix  (str; required)" in kproxy("filters", "shown_filters:Mine")[1]
