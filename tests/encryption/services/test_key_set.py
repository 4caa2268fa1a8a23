"""Keys in a sealed file: they open with the right secret alone, outlive each step, and stay destroyed."""

import json
import os
import shutil
import stat
import threading
from base64 import b64decode, b64encode
from hashlib import scrypt
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kproxy.encryption.services import KeyDestroyed, KeyServiceAway, KeyServiceError, KeySettings, key_service
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.testing.key_services import KeyServiceContract

PASSPHRASE = "correct horse é"


@pytest.fixture
def options(tmp_path: Path) -> KeySetOptions:
    """By a key file: deriving a key from a passphrase takes long."""
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    return KeySetOptions(path=str(tmp_path / "keys"), key_file=str(tmp_path / "seal"))


@pytest.fixture
def service(options: KeySetOptions) -> KeySet:
    made = KeySet(options, lambda: 1_700_000_000.0)
    for name in ("orders", "bills"):
        made.make(name)
    return made


class TestKeySet(KeyServiceContract):
    key_name, other_key_name = "orders", "bills"


def test_what_the_file_is_by_another_implementation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL", PASSPHRASE)
    options = KeySetOptions(path=str(tmp_path / "keys"), passphrase="env:SEAL")
    KeySet(options).make("orders")
    made = KeySet(options).new_data_key("orders")
    file = json.loads((tmp_path / "keys").read_bytes())
    costs = file["seal"]["scrypt"]
    seal = scrypt(
        PASSPHRASE.encode(),
        salt=b64decode(costs["salt"]),
        n=costs["n"],
        r=costs["r"],
        p=costs["p"],
        dklen=32,
        maxmem=1 << 26,
    )
    sealed = b64decode(file["sealed"])
    bound = json.dumps(["kproxy key set 1", file["seal"]], sort_keys=True).encode()
    keys = json.loads(AESGCM(seal).decrypt(sealed[:12], sealed[12:], bound))
    key, wrapped = b64decode(keys["orders"][0]["key"]), made.wrapped
    assert wrapped[:5] == b"\1\0\0\0\1"
    assert AESGCM(key).decrypt(wrapped[5:17], wrapped[17:], wrapped[:5] + b"orders") == made.plain
    monkeypatch.setenv("SEAL", "correct horse e")
    with pytest.raises(KeyServiceError, match="the passphrase does not open"):
        KeySet(options).unwrap("orders", wrapped)
    for secret in ("short", ""):
        monkeypatch.setenv("SEAL", secret)
        with pytest.raises(KeyServiceError):
            KeySet(options).list_keys()


def test_destroyed_versions_are_remembered(service: KeySet, options: KeySetOptions) -> None:
    first = service.new_data_key("orders")
    service.rotate("orders")
    second = service.new_data_key("orders")
    service.destroy("orders", before=2)
    other = KeySet(options)  # another process
    with pytest.raises(KeyDestroyed, match="version 1 of the key orders has been destroyed"):
        other.unwrap("orders", first.wrapped)
    assert other.unwrap("orders", second.wrapped) == second.plain
    service.destroy("orders")
    for call in (
        lambda: other.unwrap("orders", second.wrapped),  # it has read the file before
        lambda: other.new_data_key("orders"),
        lambda: other.rotate("orders"),
    ):
        with pytest.raises(KeyDestroyed, match="destroyed"):
            call()
    with pytest.raises(KeyServiceError, match="choose another name"):
        other.make("orders")
    facts = other.describe_key("orders")
    assert (facts.versions, facts.oldest, facts.destroyed_at) == (2, None, 1_700_000_000_000)
    assert [one.name for one in other.list_keys()] == ["bills", "orders"]


def test_copies_of_a_key_set_that_are_both_rotated_open_their_own_records_alone(
    service: KeySet, options: KeySetOptions, tmp_path: Path
) -> None:
    other = KeySet(KeySetOptions(path=str(tmp_path / "copy"), key_file=options.key_file))
    shutil.copy(options.path, tmp_path / "copy")
    first = service.new_data_key("orders")
    service.rotate("orders")
    second = service.new_data_key("orders")
    with pytest.raises(KeyServiceError, match=r"no version 2: is .*/copy an old copy\?"):
        other.unwrap("orders", second.wrapped)
    other.rotate("orders")
    with pytest.raises(
        KeyServiceError, match=r"version 2 of the key orders in .*/copy has not wrapped .* both were rotated"
    ):
        other.unwrap("orders", second.wrapped)
    assert other.unwrap("orders", first.wrapped) == first.plain


def test_each_part_of_the_file_is_sealed(service: KeySet, options: KeySetOptions, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    whole = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600 and b"orders" not in whole
    content = json.loads(whole)
    sealed = bytearray(b64decode(content["sealed"]))
    for at in range(0, len(sealed), 7):
        changed = bytearray(sealed)
        changed[at] ^= 1
        file.write_text(json.dumps(content | {"sealed": b64encode(changed).decode()}))
        with pytest.raises(KeyServiceError, match="does not open"):
            KeySet(options).list_keys()
    for text in ("", "[]", "{}", whole.decode().replace("set 1", "set 2"), '{"format": 1}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(KeyServiceError):
            KeySet(options).list_keys()
    file.unlink()
    with pytest.raises(KeyServiceAway, match="No such file"):
        service.new_data_key("orders")


def test_a_failed_change_changes_nothing(service: KeySet, tmp_path: Path) -> None:
    before = (tmp_path / "keys").read_bytes()
    for call in (
        lambda: service.make("orders"),
        lambda: service.make("a\nb"),
        lambda: service.destroy("orders", before=2),
        lambda: service.make("new", dry_run=True) or service.describe_key("new"),
        lambda: service.rotate("orders", dry_run=True) or service.rotate("none"),
        lambda: service.seal_with(KeySetOptions(path=str(tmp_path / "seal"), key_file=str(tmp_path / "seal"))),
    ):
        with pytest.raises(KeyServiceError):
            call()
    assert (tmp_path / "keys").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys", "seal"]


def test_a_service_that_breaks_its_contract(
    options: KeySetOptions, service: KeySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What key_service returns has bounds, whatever the service does."""
    with_ = {"path": options.path, "key_file": options.key_file}
    bounded = key_service(KeySettings(use="file", with_=with_, timeout=30))
    wrapped = service.new_data_key("orders").wrapped

    def fail(*_: object) -> bytes:
        raise ValueError("canary")

    monkeypatch.setattr(KeySet, "unwrap", fail)
    with pytest.raises(KeyServiceError, match=r"failed with ValueError$"):
        bounded.unwrap("orders", wrapped)
    monkeypatch.setattr(KeySet, "new_data_key", lambda *_: None)
    with pytest.raises(KeyServiceAway, match=r"failed with AttributeError$"):
        bounded.new_data_key("orders")
    monkeypatch.setattr(KeySet, "unwrap", lambda *_: b"short")
    with pytest.raises(KeyServiceError, match="has 32 bytes"):
        bounded.unwrap("orders", wrapped)
    end = threading.Event()
    monkeypatch.setattr(KeySet, "unwrap", lambda *_: end.wait(30) and b"")
    bounded = key_service(KeySettings(use="file", with_=with_, timeout=0.05))
    for _ in range(16):
        with pytest.raises(KeyServiceAway, match=r"did not answer within 0.05 s"):
            bounded.unwrap("orders", wrapped)
    with pytest.raises(KeyServiceAway, match="16 earlier calls"):
        bounded.unwrap("orders", wrapped)
    end.set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_change_keeps_the_owner_the_mode_and_the_link(service: KeySet, tmp_path: Path) -> None:
    sealed, link = tmp_path / "keys", tmp_path / "links" / "keys"
    os.chown(sealed, 1234, 4321)
    sealed.chmod(0o640)
    link.parent.mkdir()
    link.symlink_to(sealed)
    by_link = KeySet(KeySetOptions(path=str(link), key_file=str(tmp_path / "seal")))
    by_link.rotate("orders")
    assert link.is_symlink()
    status = sealed.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o640)
    assert service.describe_key("orders").versions == 2


def test_a_file_that_is_away_for_a_moment_is_tried_again(service: KeySet, tmp_path: Path) -> None:
    """Kubernetes replaces mounted files; producers must not lose records meanwhile."""
    for name in ("keys", "seal"):
        service.close()
        file = tmp_path / name
        file.rename(tmp_path / "away")
        with pytest.raises(KeyServiceAway, match=name):
            service.new_data_key("orders")
        (tmp_path / "away").rename(file)
        assert service.new_data_key("orders")


def test_another_process_finds_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tasks of Spark do, which run in folders of their own; a token and certificates of Vault as well."""
    monkeypatch.chdir(tmp_path)
    given = KeySettings(use="file", with_={"path": "keys", "passphrase": "file:seal"})
    assert given.absolute().with_ == {"path": f"{tmp_path}/keys", "passphrase": f"file:{tmp_path}/seal"}
    given = KeySettings(use="vault", with_={"url": "https://vault", "token": "env:TOKEN", "ca": __file__})
    assert given.absolute() == given
    (tmp_path / "ca").touch()
    found = KeySettings(use="vault", with_={**given.with_, "ca": "ca"}).absolute()
    assert found.with_["ca"] == f"{tmp_path}/ca" and found.timeout == given.timeout
