"""Requests as browsers send them for other sites: after DNS rebinding, and forged. For whatever serves a page on this machine."""

REBOUND = (  # Host headers of a name of another site that leads here
    "evil.example",
    "evil.example:9644",
    "127.0.0.1.evil.example",
    "127.0.0.1.evil.example:8000",
    "localhost@evil.example",
    "",
    "[::1",
    "a:b",
)
ORIGINS = ("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1")  # of pages that are not ours
SITES = ("cross-site", "same-site")  # what Sec-Fetch-Site says of them
