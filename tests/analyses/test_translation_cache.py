"""Translations between runs: kept, found again, and never needed."""

from pathlib import Path

import pytest

from kproxy.analyses.translation_cache import Cache, Translation, users_cache

ONE = Translation(["exchanges"], ["most"], "SELECT 1")


def test_what_was_put_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.json"
    cache = Cache(path)
    assert cache.get("SELECT one") is None
    cache.put("SELECT one", ONE)
    cache.save()
    assert Cache(path).get("SELECT one") == ONE
    assert Cache(path).get("SELECT two") is None
    assert [entry.name for entry in path.parent.iterdir()] == ["cache.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_a_damaged_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    cache = Cache(path)
    assert cache.get("SELECT one") is None
    cache.put("SELECT one", ONE)
    cache.save()
    assert Cache(path).get("SELECT one") == ONE


def test_without_a_place_to_write_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (None, tmp_path / "file" / "cache.json"):
        cache = Cache(path)
        cache.put("SELECT one", ONE)
        cache.save()


def test_another_translator_has_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for text in ("old", "new"):
        (tmp_path / "translate.py").write_text(text, encoding="utf-8")
        cache = users_cache(tmp_path / "translate.py")
        assert cache.get("SELECT one") is None
        cache.put("SELECT one", ONE)
        cache.save()
    assert len(list((tmp_path / "kproxy").iterdir())) == 2
