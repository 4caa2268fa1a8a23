"""What clients prove to kproxy: logins that end at the proxy (`authentication:` of a virtual cluster).

What kproxy proves to brokers is kproxy.login.

    principal.py   Principal: who a client has proved to be
    scram.py       SCRAM: its arithmetic, which kproxy.login uses too, and the server's half
"""

from kproxy.authentication.principal import ANONYMOUS, Principal

__all__ = ["ANONYMOUS", "Principal"]
