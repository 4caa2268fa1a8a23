"""Secrets of logins in Vault's key-value engine: of a stand-in, and of OpenBao itself."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kproxy.config.structs import Login, VaultSecrets
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.identities import Identities
from kproxy.login.secrets import AGAIN_S, MOST_KEPT, USED_S, Secrets
from tests.conftest import Require
from tests.support import openbao
from tests.support.vault import Vault

TOKEN = "hvs.canary-of-the-token"
PASSWORD = "vault:kafka/kproxy#password"


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)
    with closing(Vault(TOKEN)) as made:
        made.secrets["kafka/kproxy"] = {"password": "first"}
        yield made


def test_it_is_used_for_a_while_and_asked_for_again_after_a_refusal(vault: Vault) -> None:
    now = [0.0]
    login = Login(mechanism="PLAIN", username="kproxy", password=PASSWORD, vault=VaultSecrets(url=vault.url))
    made = Identities(login, lambda: now[0])
    assert made.has_own and made.known("anyone") is None
    assert made.fetch("anyone") == made.known(None) == Credentials("PLAIN", "kproxy", "first")
    vault.secrets["kafka/kproxy"] = {"password": "second"}
    assert made.fetch("anyone").password == "first" and len(vault.requests) == 1
    made.note_refusal("anyone")
    assert made.known("anyone") is None and made.fetch("anyone").password == "second"
    now[0] += USED_S
    assert made.known("anyone") is None
    assert vault.requests == ["GET /v1/secret/data/kafka/kproxy"] * 2


def test_while_vault_is_away_the_known_secret_serves(vault: Vault) -> None:
    now = [0.0]
    made = Secrets(VaultSecrets(url=vault.url), lambda: now[0])
    assert made.read(PASSWORD) == "first"
    vault.sealed = True
    now[0] += USED_S
    assert made.read(PASSWORD) == "first" and len(vault.requests) == 2
    now[0] += AGAIN_S / 2
    assert made.read(PASSWORD) == "first" and len(vault.requests) == 2
    with pytest.raises(LoginRefused, match="it is sealed"):
        made.read("vault:kafka/other#password")
    vault.secrets["kafka/kproxy"] = {"password": "second"}
    vault.sealed = False
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
def test_what_is_not_there(vault: Vault, reference: str, said: str) -> None:
    with pytest.raises(LoginRefused, match=said) as refused:
        Secrets(VaultSecrets(url=vault.url), lambda: 0.0).read(reference)
    assert TOKEN not in f"{refused.value}" and "first" not in f"{refused.value}"
    vault.token = "another"
    with pytest.raises(LoginRefused, match="refuses the token"):
        Secrets(VaultSecrets(url=vault.url), lambda: 0.0).read(PASSWORD)


def test_no_more_are_kept_than_fit_and_names_do_not_leave_the_path(vault: Vault) -> None:
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


@pytest.mark.slow
def test_openbao(require: Require, tmp_path: Path) -> None:
    """Both versions of its engine, a secret that is deleted, and a token that may read one path."""
    require("openbao", openbao.missing() is None, openbao.missing() or "")
    bao = openbao.OpenBao(tmp_path).start()
    try:
        bao.put("kafka/kproxy", password="first")
        bao.put("kafka/other", password="of-another")
        policy = 'path "secret/data/kafka/kproxy" { capabilities = ["read"] }\npath "old/*" { capabilities = ["read"] }'
        bao.ask("PUT", "sys/policies/acl/kproxy", {"policy": policy})
        token = bao.ask("POST", "auth/token/create", {"policies": ["kproxy"]})["auth"]["client_token"]
        (tmp_path / "token").write_text(token)
        at = {"url": bao.url, "token": f"file:{tmp_path / 'token'}"}
        new, old = (Secrets(VaultSecrets(**at, **more), lambda: 0.0) for more in ({}, {"mount": "old", "engine": "v1"}))
        assert new.read(PASSWORD) == old.read(PASSWORD) == "first"
        assert old.read("vault:kafka/other#password") == "of-another"
        with pytest.raises(LoginRefused, match="has no right to this"):
            new.read("vault:kafka/other#password")
        bao.put("kafka/kproxy", password="second")
        for made in (new, old):
            made.doubt(PASSWORD)
            assert made.read(PASSWORD) == "second"
        bao.ask("DELETE", "secret/data/kafka/kproxy")
        new.doubt(PASSWORD)
        with pytest.raises(LoginRefused, match="no secret kafka/kproxy"):
            new.read(PASSWORD)
    finally:
        bao.stop()
