"""Vault's transit engine as a key service: that of OpenBao."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kproxy.encryption.services import KeyDestroyed, KeyRefused, KeyService, KeyServiceError
from kproxy.encryption.services.vault import VaultOptions, VaultTransit
from kproxy.errors import UsageError
from kproxy.options import read_options
from kproxy.testing.key_services import HttpFaults, KeyServiceContract
from tests.cli.conftest import Kproxy, kproxy
from tests.support.openbao import OpenBao, bao

__all__ = ["bao", "kproxy"]


@pytest.fixture
def vault(bao: OpenBao, monkeypatch: pytest.MonkeyPatch) -> OpenBao:
    """It has no keys."""
    monkeypatch.setenv("VAULT_TOKEN", bao.token)
    bao.forget_keys()
    return bao


@pytest.fixture
def service(vault: OpenBao) -> Iterator[VaultTransit]:
    with closing(VaultTransit(VaultOptions(url=vault.url))) as made:
        for name in ("orders", "bills"):
            made.make(name)
        yield made


class TestVault(KeyServiceContract):
    key_name, other_key_name = "orders", "bills"


class TestFaultsOfVault(HttpFaults):
    @pytest.fixture(autouse=True)
    def token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VAULT_TOKEN", OpenBao.token)

    def service_at(self, url: str) -> KeyService:
        return VaultTransit(VaultOptions(url=url, timeout=1.0))


def test_names_of_keys_do_not_leave_their_path(service: VaultTransit, vault: OpenBao) -> None:
    """The name comes from a record. Not one request was made for what is no name."""
    before = len(vault.requests())
    for name in ("../../sys/seal", "orders/../bills", "orders?x", "", "a" * 300):
        with pytest.raises(KeyServiceError):
            service.unwrap(name, b"vault:v1:AAAA")
    for wrapped in (b"AAAA", b"vault:v1:", b"vault:v1:\xff", b"vault:v0:AAAA", b"vault:v1:AAAA\n"):
        with pytest.raises(KeyServiceError, match="no data key that Vault has wrapped"):
            service.unwrap("orders", wrapped)
    assert len(vault.requests()) == before


def test_a_token_in_a_file_that_is_replaced(vault: OpenBao, tmp_path: Path) -> None:
    file = tmp_path / "token"
    service = VaultTransit(VaultOptions(url=vault.url, token=f"file:{file}"))
    with pytest.raises(KeyRefused, match=f"no token for {vault.url}: {file} cannot be read"):
        service.list_keys()
    file.write_text("old\n")
    with pytest.raises(KeyRefused, match=r"the key orders: .*refuses the token"):
        service.make("orders")
    file.write_text(f"{vault.token}\n")
    service.make("orders")
    assert [one.name for one in service.list_keys()] == ["orders"]
    file.write_text("a\nb: c")
    with pytest.raises(KeyRefused, match="is no token of Vault"):
        service.list_keys()


def test_old_versions_and_whole_keys_are_destroyed(service: VaultTransit) -> None:
    first = service.new_data_key("orders")
    service.rotate("orders")
    second = service.new_data_key("orders")
    service.destroy("orders", before=2, dry_run=True)
    assert service.unwrap("orders", first.wrapped) == first.plain
    service.destroy("orders", before=2)
    with pytest.raises(KeyDestroyed, match="the version of the key orders is destroyed"):
        service.unwrap("orders", first.wrapped)
    assert service.unwrap("orders", second.wrapped) == second.plain
    facts = service.describe_key("orders")
    assert (facts.versions, facts.oldest) == (2, 2) and facts.rotated_at is not None and facts.rotated_at > 1.7e12
    service.destroy("orders")
    for call in (lambda: service.unwrap("orders", second.wrapped), lambda: service.new_data_key("orders")):
        with pytest.raises(KeyDestroyed, match="there is no key orders"):
            call()


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"url": "vault:8200"}, "url", "write https://HOST:PORT"),
        ({"url": "https://user:canary@vault:8200"}, "url", "takes a token"),
        ({"url": "http://vault:8200"}, "url", "without TLS"),
        ({"url": "https://vault:8200", "token": "hvs.canary"}, "token", "it says where the token is"),
        ({"url": "https://vault:8200", "certificate": "/etc/hosts"}, "certificate", "belong together"),
        ({"url": "https://vault:8200", "ca": "/none"}, "ca", "cannot be read"),
        ({"url": "https://vault:8200", "mount": "../sys"}, "mount", "does not match"),
    ],
)
def test_options_with_a_mistake(given: dict[str, str], path: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(VaultOptions, given)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value) and "canary" not in str(caught.value)


def test_kproxy_keys_with_vault(kproxy: Kproxy, vault: OpenBao, tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(f"use: vault\nwith: {{url: '{vault.url}'}}\n")
    assert kproxy("keys", file) == (0, "the key service has no keys: --make KEY makes the first\n", "")
    assert kproxy("keys", file, "--make", "orders", "--dry-run")[0] == 0 and "no keys" in kproxy("keys", file)[1]
    assert kproxy("keys", file, "--make", "orders")[0] == 0
    assert vault.ask("LIST", "transit/keys")["data"]["keys"] == ["orders"]
    assert kproxy("keys", file, "--make", "orders")[::2] == (1, "kproxy: there is a key orders already\n")
    assert kproxy("keys", file, "--rotate", "orders")[0] == 0
    assert vault.ask("GET", "transit/keys/orders")["data"]["latest_version"] == 2
    code, out, _ = kproxy("keys", file, "--check", "orders")
    assert code == 0 and out.startswith("orders: a data key was made, wrapped in ")
    assert kproxy("keys", file, "--seal-with", file)[::2] == (
        2,
        "kproxy: --seal-with is for key sets in files (use: file)\n",
    )
    assert kproxy("keys", file)[1].startswith("orders  version 2 since 20")
