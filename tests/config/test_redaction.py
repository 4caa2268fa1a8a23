"""No secret of a configuration is shown; all else is."""

import json

import msgspec

from kproxy.config import Config
from kproxy.config.redaction import WITHHELD, redacted
from kproxy.filters.loading import BUILT_IN

TEXT = """
clusters:
- name: orders
  listen: ":19092"
  bootstrap: ["kafka:9092"]
  through: "socks5://user:c4n@ry@proxy:1080"
  filters:
  - use: headers
    with: {set: {origin: kproxy}}
  - use: company.filters:Secret
    with: {url: "c4nary", limits: [{name: "c4nary"}]}
  - use: mask
    with: {salt: "c4nary", rules: [{topic: t, api_token: "c4nary", path: "$.card"}]}
admin: 127.0.0.1:9644
traces: {otlp: "http://collector:4318", headers: {x-team: "c4nary", authorization: "Bearer c4nary"}}
"""


def test_secrets_are_withheld_and_the_rest_is_shown() -> None:
    shown = redacted(msgspec.yaml.decode(TEXT, type=Config), BUILT_IN)
    assert "c4n" not in json.dumps(shown)
    (cluster,) = shown["clusters"]
    assert cluster["through"] == f"socks5://{WITHHELD}@proxy:1080"
    assert [use["with"] for use in cluster["filters"]] == [
        {"set": {"origin": "kproxy"}},
        {"url": WITHHELD, "limits": WITHHELD},
        {"salt": WITHHELD, "rules": [{"topic": "t", "api_token": WITHHELD, "path": "$.card"}]},
    ]
    assert (shown["traces"]["otlp"], shown["traces"]["headers"]) == ("http://collector:4318", WITHHELD)
    assert (shown["admin"], shown["metrics"]["series"], cluster["bootstrap"]) == (
        "127.0.0.1:9644",
        1000,
        ["kafka:9092"],
    )
