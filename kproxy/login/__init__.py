"""How kproxy itself logs in to a cluster, as a client does, with credentials that a person gives. SASL: PLAIN and SCRAM.

    client_settings.py   credentials, from a file as Kafka's own tools take it
    log_in.py            SaslHandshake and SaslAuthenticate, on any connection that can ask; Scram: its messages, without I/O

Clients' own logins pass through kproxy and are read in kproxy.session.sasl. No text made here holds a password.

To add a mechanism: its name in MECHANISMS of client_settings.py, and its steps in log_in.py.
"""
