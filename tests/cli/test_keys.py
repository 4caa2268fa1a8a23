"""kproxy keys: it makes, rotates, checks and destroys keys, with a dry run of each, and shows none."""

import io
import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
import yaml

from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from tests.cli.conftest import Kproxy


def test_the_life_of_a_key(kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seal").write_bytes(bytes(32))
    (tmp_path / "other").write_bytes(bytes(range(40)))
    file, sealed = tmp_path / "keys.yaml", tmp_path / "keys"
    file.write_text(f"use: file\nwith: {{path: {sealed}, key_file: {tmp_path}/seal}}\n")
    assert kproxy("keys", file, "--make", "orders", "--dry-run") == (0, "would make the key orders\n", "")
    assert not sealed.exists()
    assert kproxy("keys", file)[::2] == (
        1,
        f"kproxy: {sealed}: No such file or directory: put it back, or if there was none, make it with its first key: "
        "kproxy keys FILE --make KEY\n",
    )
    for name in ("kek-{topic}", "é" * 128, ""):  # which no rule can name
        code, out, said = kproxy("keys", file, "--make", name, "--dry-run")
        assert (code, out) == (1, "") and "the name of a key has" in said
    assert kproxy("keys", file, "--make", "orders")[:2] == (0, "made the key orders\n")
    service = KeySet(KeySetOptions(path=str(sealed), key_file=str(tmp_path / "seal")))
    old = service.new_data_key("orders")
    before = sealed.read_bytes()
    for words in (["--rotate", "orders"], ["--destroy", "orders"], ["--check", "orders"]):
        code, out, _ = kproxy("keys", file, *words, "--dry-run")
        assert code == 0 and out.startswith("would ") and sealed.read_bytes() == before
    assert kproxy("keys", file, "--check", "bills", "--dry-run")[::2] == (
        1,
        f"kproxy: there is no key bills in {sealed}\n",
    )
    assert "has one version" in kproxy("keys", file, "--destroy", "orders", "--before", "2", "--yes")[2]
    assert kproxy("keys", file, "--rotate", "orders")[:2] == (0, "added a version to the key orders\n")
    assert kproxy("keys", file, "--check", "orders")[:2] == (
        0,
        "orders: a data key was made, wrapped in 65 bytes, and unwrapped\n",
    )
    code, _, said = kproxy("keys", file, "--check", "")
    assert code == 1 and "there is no key" in said, "a variable of the shell that is not set"
    assert kproxy("keys", file, "--record-keys", "orders", "--dry-run")[1].startswith(
        "would have a data key for record"
    )
    assert kproxy("keys", file, "--record-keys", "bills", "--dry-run")[0] == 1
    code, out, _ = kproxy("keys", file, "--record-keys", "orders")
    printed = yaml.safe_load(out)["record_keys"]
    assert code == 0 and len(service.unwrap(printed["key"], b64decode(printed["wrapped"]))) == 32
    monkeypatch.setattr("sys.stdin", io.StringIO(b64encode(old.wrapped).decode() + "\n"))
    code, out, _ = kproxy("keys", file, "--rewrap", "orders")
    rewrapped = b64decode(out)
    assert rewrapped[4] == 2 and service.unwrap("orders", rewrapped) == old.plain
    monkeypatch.setattr("sys.stdin", io.StringIO(b64encode(old.wrapped).decode() + "\nAAAA\n"))
    code, out, said = kproxy("keys", file, "--rewrap", "orders")
    assert (code, out) == (1, "") and "line 2 of standard input: this is no data key" in said
    destroy = ["--destroy", "orders", "--before", "2"]
    before = sealed.read_bytes()
    code, _, said = kproxy("keys", file, *destroy)
    assert code == 2 and "give --yes" in said and sealed.read_bytes() == before
    code, out, _ = kproxy("keys", file, *destroy, "--yes")
    assert code == 0 and out.startswith("destroyed the versions of the key orders before 2: ") and "data_key_age" in out
    (row,) = json.loads(kproxy("keys", file, "--format", "json")[1])
    assert (row["name"], row["versions"], row["oldest"], row["destroyed_at"]) == ("orders", 2, 2, None)
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text().replace("/seal", "/other"))
    assert kproxy("keys", file, "--seal-with", other)[0] == 0
    assert kproxy("keys", file)[::2] == (1, f"kproxy: the key file does not open {sealed}, or the file is damaged\n")
    assert "version 2 since 20" in kproxy("keys", other)[1]


def test_a_person_is_asked_before_a_key_is_destroyed(
    kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seal").write_bytes(bytes(32))
    file, sealed = tmp_path / "keys.yaml", tmp_path / "keys"
    file.write_text(f"use: file\nwith: {{path: {sealed}, key_file: {tmp_path}/seal}}\n")
    service = KeySet(KeySetOptions(path=str(sealed), key_file=str(tmp_path / "seal")))
    service.make("orders")
    for answer, code, oldest in (("n", 2, 1), ("y", 0, None)):
        terminal = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", terminal)
        assert kproxy("keys", file, "--destroy", "orders")[0] == code
        assert service.describe_key("orders").oldest == oldest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("use: fil\n", '1:6: use: there is no key service "fil": did you mean file?'),
        ("use: file\n", "1:1: with.path: it is missing"),
        (
            "use: file\nwith:\n  path: x\n  passphrase: canary\n",
            "4:15: with.passphrase: it says where the passphrase is",
        ),
        ("use: file\nwith: {path: x}\n", "2:7: with.passphrase: write either passphrase or key_file"),
        ("use: file\nwith: {path: x, key_file: y, canary: 1}\n", "2:38: with.canary: unknown name"),
        ("with: {}\n", "1:1: use: it is missing"),
        (
            "use: file\nwith: {path: x, key_file: y}\ntimeout: canary\n",
            '3:10: timeout: "canary" is not a number of seconds',
        ),
    ],
)
def test_settings_with_a_mistake(kproxy: Kproxy, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    code, out, errors = kproxy("keys", file)
    assert (code, out) == (2, "") and f"{file}:{said}" in errors.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--make", "a", "--rotate", "b"], "--make and --rotate exclude each other"),
        (["--before", "2"], "--before belongs to --destroy"),
        (["--yes"], "--yes belongs to --destroy"),
    ],
)
def test_words_that_exclude_each_other(kproxy: Kproxy, tmp_path: Path, words: list[str], said: str) -> None:
    code, out, errors = kproxy("keys", tmp_path / "none", *words)
    assert (code, out) == (2, "") and said in errors


def test_a_key_service_without_keys_says_so(kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seal").write_bytes(bytes(32))
    file = tmp_path / "keys.yaml"
    file.write_text(f"use: file\nwith: {{path: {tmp_path}/keys, key_file: {tmp_path}/seal}}\n")
    monkeypatch.setattr(KeySet, "list_keys", lambda self: [])  # as Vault's of an engine without keys
    assert kproxy("keys", file) == (0, "the key service has no keys: --make KEY makes the first\n", "")
    assert kproxy("keys", file, "--format", "json") == (0, "[]\n", "")
