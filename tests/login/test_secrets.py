"""Secrets of logins in Vault's key-value engine: that of OpenBao."""

from pathlib import Path

import pytest

from kproxy.config.structs import Login, VaultSecrets
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.identities import Identities
from kproxy.login.secrets import AGAIN_S, MOST_KEPT, USED_S, Secrets
from tests.support.openbao import OpenBao, bao

__all__ = ["bao"]
PASSWORD = "vault:kafka/kproxy#password"


@pytest.fixture
def vault(bao: OpenBao, monkeypatch: pytest.MonkeyPatch) -> OpenBao:
    monkeypatch.setenv("VAULT_TOKEN", bao.token)
    bao.put("kafka/kproxy", password="first")
    return bao


def test_it_is_used_for_a_while_and_asked_for_again_after_a_refusal(vault: OpenBao) -> None:
    now = [0.0]
    login = Login(mechanism="PLAIN", username="kproxy", password=PASSWORD, vault=VaultSecrets(url=vault.url))
    made = Identities(login, lambda: now[0])
    assert made.has_own and made.known("anyone") is None
    assert made.fetch("anyone") == made.known(None) == Credentials("PLAIN", "kproxy", "first")
    vault.put("kafka/kproxy", password="second")
    assert made.fetch("anyone").password == "first"
    made.note_refusal("anyone")
    assert made.known("anyone") is None and made.fetch("anyone").password == "second"
    now[0] += USED_S
    assert made.known("anyone") is None


def test_while_vault_is_away_the_known_secret_serves(vault: OpenBao) -> None:
    now = [0.0]
    made = Secrets(VaultSecrets(url=vault.url), lambda: now[0])
    assert made.read(PASSWORD) == "first"
    vault.seal()
    try:
        now[0] += USED_S
        assert made.read(PASSWORD) == "first"
        with pytest.raises(LoginRefused, match="it is sealed"):
            made.read("vault:kafka/other#password")
    finally:
        vault.unseal()
    vault.put("kafka/kproxy", password="second")
    now[0] += AGAIN_S / 2
    assert made.read(PASSWORD) == "first", "it is not asked again so soon"
    now[0] += AGAIN_S
    assert made.read(PASSWORD) == "second"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("vault:kafka/none#password", "no secret kafka/none"),
        ("vault:kafka/kproxy#other", "has no text other"),
        ("vault:../../sys/seal#password", "no secret"),
    ],
)
def test_what_is_not_there(vault: OpenBao, monkeypatch: pytest.MonkeyPatch, reference: str, said: str) -> None:
    with pytest.raises(LoginRefused, match=said) as refused:
        Secrets(VaultSecrets(url=vault.url), lambda: 0.0).read(reference)
    assert vault.token not in f"{refused.value}" and "first" not in f"{refused.value}"
    monkeypatch.setenv("VAULT_TOKEN", "another")
    with pytest.raises(LoginRefused, match="refuses the token"):
        Secrets(VaultSecrets(url=vault.url), lambda: 0.0).read(PASSWORD)


def test_no_more_are_kept_than_fit_and_names_do_not_leave_the_path(vault: OpenBao) -> None:
    template = "vault:kafka/{principal}#password"
    login = Login(mechanism="PLAIN", username="u", password=template, vault=VaultSecrets(url=vault.url))
    made = Identities(login, lambda: 0.0)
    assert not made.has_own and made.fetch("kproxy").password == "first"
    for name in ("../kproxy", "kproxy#other", "kproxy?version=1", "%2e%2e"):
        with pytest.raises(LoginRefused, match="cannot be put"):
            made.fetch(name)
    kept = made._secrets
    kept._vault.read = lambda reference: reference  # type: ignore[union-attr,method-assign]
    for number in range(MOST_KEPT + 10):
        kept.read(f"vault:kafka/{number}#password")
    assert len(kept._kept) == MOST_KEPT


def test_both_versions_of_its_engine_and_a_token_that_may_read_one_path(vault: OpenBao, tmp_path: Path) -> None:
    vault.put("kafka/other", password="of-another")
    policy = 'path "secret/data/kafka/kproxy" { capabilities = ["read"] }\npath "old/*" { capabilities = ["read"] }'
    vault.ask("PUT", "sys/policies/acl/kproxy", {"policy": policy})
    token = vault.ask("POST", "auth/token/create", {"policies": ["kproxy"]})["auth"]["client_token"]
    (tmp_path / "token").write_text(token)
    at = {"url": vault.url, "token": f"file:{tmp_path / 'token'}"}
    new, old = (Secrets(VaultSecrets(**at, **more), lambda: 0.0) for more in ({}, {"mount": "old", "engine": "v1"}))
    assert new.read(PASSWORD) == old.read(PASSWORD) == "first"
    assert old.read("vault:kafka/other#password") == "of-another"
    with pytest.raises(LoginRefused, match="has no right to this"):
        new.read("vault:kafka/other#password")
    vault.put("kafka/kproxy", password="second")
    for made in (new, old):
        made.doubt(PASSWORD)
        assert made.read(PASSWORD) == "second"
    vault.ask("DELETE", "secret/data/kafka/kproxy")
    new.doubt(PASSWORD)
    with pytest.raises(LoginRefused, match="no secret kafka/kproxy"):
        new.read(PASSWORD)
