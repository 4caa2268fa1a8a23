"""TokenKeys: the public keys of an identity provider, from a file or a URL (JWKS), as they are rolled over.

Keys of a URL are asked for at the first login; again in the background once they are OLD_S old; and at once for a token whose key
is not known, but not more often than every AGAIN_S, whatever clients send. While the provider does not answer, the keys that are
known stay in use: beyond a reload of the configuration, and in workers that are started meanwhile, as workers tell each other
what they were answered. Redirects are not followed, as the answer says who is let in.
"""

import asyncio
import contextlib
import http.client
import ssl
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kproxy.authentication.tokens import LARGEST_KEYS, Keys
from kproxy.config.structs import Tokens
from kproxy.errors import UsageError
from kproxy.proxy.logs import log

OLD_S = 300.0
AGAIN_S = 10.0
TIMEOUT_S = 5.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect is an error."""


class TokenKeys:
    """The keys that tokens are checked with. Raises UsageError if a file has none.

    Args:
        cluster: for the log.
        share: tells other workers the keys at a URL, a JWKS.
        kept: keys by URL, which outlive the configuration.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        tokens: Tokens,
        cluster: str,
        share: Callable[[str, bytes], None],
        kept: dict[str, Keys],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._share = share
        self._kept = kept
        self._cluster = cluster
        self._clock = clock
        self._keys = kept.get(tokens.keys_url or "")
        self._asked_at = -AGAIN_S
        self._asking: asyncio.Task[None] | None = None
        self._is_away = False
        self.reload()

    def reload(self) -> None:
        """Read the file again; the keys of a URL are asked for by and by. Raises UsageError, and then nothing has changed."""
        if self._tokens.keys_file is not None:
            self._keys = read_keys(self._tokens.keys_file)

    def receive(self, url: str, keys: bytes) -> None:
        """Take the keys that another worker was answered."""
        if url == self._tokens.keys_url:
            self._keys = self._kept[url] = Keys(keys)

    def current(self) -> Keys | None:
        """Return the keys that are known, and ask for newer ones in the background if they are old."""
        if self._keys is not None and self._tokens.keys_url is not None and self._clock() > self._asked_at + OLD_S:
            self._ask()
        return self._keys

    async def refresh(self) -> Keys | None:
        """Ask for the keys unless that was done just now, and return those known then."""
        if self._tokens.keys_url is not None:
            if self._asking is None and self._clock() >= self._asked_at + AGAIN_S:
                self._ask()
            if self._asking is not None:
                await asyncio.shield(self._asking)
        return self._keys

    def _ask(self) -> None:
        if self._asking is None:
            self._asked_at = self._clock()
            self._asking = asyncio.ensure_future(self._fetch_later())

    async def _fetch_later(self) -> None:
        try:
            keys = await asyncio.to_thread(self._fetch)
            url = str(self._tokens.keys_url)
            if self._keys is None or keys.public != self._keys.public:
                self._share(url, keys.public)
            self._keys = self._kept[url] = keys
            if self._is_away:
                log("info", "the identity provider answers again", cluster=self._cluster)
            self._is_away = False
        except UsageError as error:
            if not self._is_away:
                log("warning", "keys of tokens are kept as they were", cluster=self._cluster, reason=str(error))
            self._is_away = True
        finally:
            self._asking = None

    def _fetch(self) -> Keys:
        """Ask the identity provider; in a thread. Raises UsageError."""
        url = str(self._tokens.keys_url)
        try:
            context = ssl.create_default_context(cafile=self._tokens.ca)
            opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))
            with contextlib.closing(opener.open(url, timeout=TIMEOUT_S)) as answer:
                return Keys(answer.read(LARGEST_KEYS + 1))
        except (UsageError, OSError, ValueError, http.client.HTTPException) as error:  # URLError is an OSError
            raise UsageError(f"{url}: {error}") from None


def read_keys(file: str) -> Keys:
    """Read the keys in a file. Raises UsageError."""
    try:
        with Path(file).open("rb") as opened:
            return Keys(opened.read(LARGEST_KEYS + 1))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
