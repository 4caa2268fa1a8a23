"""How kproxy itself logs in to a cluster, as a client does, where a person gives it credentials. SASL: PLAIN and SCRAM.

    client_settings.py   credentials, from a file as Kafka's own tools take it
    log_in.py            SaslHandshake and SaslAuthenticate, on any connection that can ask
    scram.py             the client's messages of SCRAM. Bytes only

Logins of clients, which pass through kproxy, are kproxy.session.sasl. A password is in no text that is made here.

To add a mechanism: its name in MECHANISMS, and its steps in log_in.py.
"""
