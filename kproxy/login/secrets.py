"""The secrets of logins, by reference: files and the environment (kproxy.secrets), and the key-value engine of Vault or OpenBao.

A file is read each time. A secret of Vault is used for USED_S, so that a thousand connections do not ask a thousand times, and no
longer once a login with it was refused: it may have been rotated. While Vault is away, the secret that is known serves on.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kproxy import secrets
from kproxy.config.structs import VaultSecrets
from kproxy.encryption.services.contract import KeyServiceAway, KeyServiceError
from kproxy.errors import LoginRefused, UsageError

USED_S = 5.0
AGAIN_S = 1.0  # until Vault is asked again after it was away
MOST_KEPT = 1_024
VAULT = "vault:"


class Secrets:
    """Reads the secrets of one virtual cluster.

    Args:
        vault: where references to Vault lead; None: nowhere.
        clock: seconds.

    Raises LoginRefused if a library is missing.
    """

    def __init__(self, vault: VaultSecrets | None, clock: Callable[[], float]) -> None:
        self._vault = None if vault is None else _Vault(vault)
        self._clock = clock
        self._kept: OrderedDict[str, tuple[str, float]] = OrderedDict()  # secret, and until when it is used
        self._away_until = 0.0

    def known(self, reference: str) -> str | None:
        """Return a secret, read now; None: Vault has to be asked for it, by `read`. Raises LoginRefused."""
        if reference.startswith(VAULT):
            secret, until = self._kept.get(reference, ("", 0.0))
            return secret if self._clock() < until else None
        try:
            return secrets.read_secret(reference)
        except secrets.SecretUnreadable as error:
            raise LoginRefused(error.what, error.advice) from None

    def read(self, reference: str) -> str:
        """Return a secret; blocks where Vault is asked. Raises LoginRefused."""
        known = self.known(reference)
        if known is not None:
            return known
        before, _ = self._kept.get(reference, ("", 0.0))
        now = self._clock()
        if before and now < self._away_until:
            return before
        if self._vault is None:
            raise LoginRefused(f"{reference} is in Vault, and login.vault is not set", "set login.vault")
        try:
            secret = self._vault.read(reference)
        except KeyServiceAway as error:
            self._away_until = self._clock() + AGAIN_S
            if before:
                return before
            raise LoginRefused(f"no secret: {error}", "is Vault up, and login.vault.url right?") from None
        except KeyServiceError as error:
            raise LoginRefused(f"no secret: {error}", "correct the token of login.vault or its policy") from None
        self._kept[reference] = secret, self._clock() + USED_S
        self._kept.move_to_end(reference)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return secret

    def doubt(self, reference: str) -> None:
        """Note that a login with a secret was refused: the next one asks for it again."""
        if reference in self._kept:
            self._kept[reference] = self._kept[reference][0], 0.0


class _Vault:
    """The key-value engine."""

    def __init__(self, settings: VaultSecrets) -> None:
        from kproxy.encryption.services.vault import Answered, VaultClient  # noqa: PLC0415 - few logins need it

        self._settings = settings
        self._answered: type[Exception] = Answered
        try:
            self._client = VaultClient(settings)
        except UsageError as error:
            what, _, advice = str(error).partition(": ")
            raise LoginRefused(what, advice) from None

    def read(self, reference: str) -> str:
        """Return the field of a secret: "vault:PATH#FIELD". Raises KeyServiceError, LoginRefused."""
        path, _, field = reference.removeprefix(VAULT).rpartition("#")
        where = f"{self._client.url}, mount {self._settings.mount}"
        try:
            data = self._client.ask(lambda vault: self._ask(vault.secrets.kv, path))
        except self._answered as error:
            raise LoginRefused(f"no secret {path} ({where}): {error}", "write it there, or correct the path") from None
        if self._settings.engine == "v2":
            data = data.get("data") or {}
        secret = data.get(field) if isinstance(data, dict) else None
        if not isinstance(secret, str) or not secret or len(secret) > secrets.LONGEST:
            raise LoginRefused(
                f"the secret {path} has no text {field} ({where})", "write it there, or correct the field"
            )
        return secret

    def _ask(self, kv: Any, path: str) -> Any:
        if self._settings.engine == "v1":
            return kv.v1.read_secret(path, mount_point=self._settings.mount)
        return kv.v2.read_secret_version(path, raise_on_deleted_version=True, mount_point=self._settings.mount)
