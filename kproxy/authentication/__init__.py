"""What clients prove to kproxy: logins that end at the proxy (`authentication:` of a virtual cluster).

What kproxy proves to brokers is kproxy.login. Nothing here waits, reads the clock or uses the network. That is done by
kproxy/proxy/client_logins.py, which reads frames from a client, gives them to ClientLogin and sends its answers.

    principal.py    Principal: who a client has proved to be
    states.py       ClientLogin: the state of one client's authentication, by the table below
    mechanisms.py   the mechanisms: a client's tokens to answers and a Principal, or LoginFailed
    scram.py        SCRAM: its arithmetic, which kproxy.login uses too, and the server's half
    tokens.py       OAUTHBEARER: signed tokens, the keys that they are checked with, what they must claim
    users.py        the users file: who may log in with PLAIN and SCRAM
    kerberos.py     GSSAPI: tickets of Kerberos; kerberos_names.py: the names of its principals
    certificates.py names of clients by their TLS certificates
    budgets.py      how many failed logins an address and a user may have, in all workers
    own_logins.py   OwnLogins: the filter that offers kproxy's SASL in ApiVersions, and hides the broker's users

States of a client (State), as in Kafka's SaslServerAuthenticator. Until it is authenticated, its link is not connected to any
broker, so nothing that it sends can reach one.

    request                 REQUIRING_HANDSHAKE         REQUIRING_AUTHENTICATE         AUTHENTICATED
    ApiVersions v0-4        answered, once              FAILED, no answer              forwarded
    ApiVersions, newer      UNSUPPORTED_VERSION (35),   FAILED, no answer              forwarded
                            may be asked again
    SaslHandshake v0        mechanism is offered:       FAILED,                        FAILED,
                            REQUIRING_AUTHENTICATE,     ILLEGAL_SASL_STATE (34)        UNSUPPORTED_SASL_MECHANISM (33):
                            raw tokens follow;                                         re-authentication needs v1
                            else FAILED, error 33
    SaslHandshake v1        the same; SaslAuthenticate  FAILED, error 34               the mechanism of before:
                            follows                                                    REQUIRING_AUTHENTICATE again;
                                                                                       else FAILED, error 33
    SaslAuthenticate        FAILED, error 34            after v1: to the mechanism.    FAILED, error 34
      v0-2                                              complete: AUTHENTICATED,
                                                        from v1 with the session's
                                                        lifetime (KIP-368);
                                                        wrong: FAILED,
                                                        SASL_AUTHENTICATION_FAILED
                                                        (58)
    any frame after         -                           it is a token, without an API. -
      SaslHandshake v0                                  complete: AUTHENTICATED;
                                                        wrong: FAILED, no answer
    another API, a bad      FAILED, no answer           FAILED, no answer              forwarded; after the session's end
      header, a bad body                                                               the connection is closed

FAILED is the end: the answer is sent after `failure_delay`, counted from the arrival of the frame, and the connection is closed.
During a re-authentication the client is still who it was: its other requests are forwarded until its session ends. If the
re-authentication fails, or makes the client another user, the connection is closed after the answer.

To add a mechanism: a class with ``evaluate`` in mechanisms.py, its name in Authentication (config/structs.py) and in
ClientLogins._mechanisms.
"""
