"""``kproxy filters``: the list, a page, JSON, and a name that is none."""

import json
from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.filters.loading import BUILT_IN


def said(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["filters", *words])
    out, error = capfdbinary.readouterr()
    return int(str(ended.value.code)), out.decode(), error.decode()


def test_the_list_names_every_built_in_filter(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, _ = said(capfdbinary)
    assert code == 0
    assert set(BUILT_IN) <= {line.split()[0] for line in out.splitlines()}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_filter_has_a_page(capfdbinary: pytest.CaptureFixture[bytes], name: str) -> None:
    code, out, _ = said(capfdbinary, name)
    assert code == 0
    assert out.startswith(f"{name}\n\n")
    _, out, _ = said(capfdbinary, name, "--format", "json")
    page = json.loads(out)
    assert page["name"] == name
    assert all(option["description"].endswith(".") for option in page["options"])


def test_the_page_of_a_users_filter(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from kproxy.filters.contract import Filter\nclass Mine(Filter):\n    def __init__(self, prefix: str): ...\n"
    (tmp_path / "shown_filters.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "  prefix  (str; required)" in said(capfdbinary, "shown_filters:Mine")[1]


def test_a_name_that_is_none(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, error = said(capfdbinary, "audi")
    assert (code, out) == (2, "")
    assert error.startswith("kproxy: there is no filter 'audi'")
