"""What messages repeat of a configuration: addresses and names, but no password and no key."""

import pytest

from kproxy.filters.units import quoted
from kproxy.filters.withholding import WITHHELD, is_secret, without_secrets, without_user_info


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("socks5://user:p@ss/w:rd@proxy:1080", f"socks5://{WITHHELD}@proxy:1080"),
        ("http://token@collector", f"http://{WITHHELD}@collector"),
        ("user:canary@kafka:9092", f"{WITHHELD}@kafka:9092"),
        ("-----BEGIN PRIVATE KEY-----\nMIIcanary", WITHHELD),
        ("kafka:9092", "kafka:9092"),
        ("http://collector:4318/v1", "http://collector:4318/v1"),
        ("alice@example.com", "alice@example.com"),
        ("/etc/kproxy/tls@2/key.pem", "/etc/kproxy/tls@2/key.pem"),
    ],
)
def test_what_is_left_out(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert "canary" not in quoted(text)


def test_only_urls_lose_their_user_in_what_is_shown_as_it_is() -> None:
    assert without_user_info("a:b@c") == "a:b@c"
    assert without_user_info("http://a:b@c") == f"http://{WITHHELD}@c"


@pytest.mark.parametrize(("name", "text"), [("traces.headers", "Bearer x"), ("broker_tls", "password:x")])
def test_what_may_be_a_secret(name: str, text: str) -> None:
    assert is_secret(name, text)
    assert not is_secret("bootstrap", "kafka:9092")
