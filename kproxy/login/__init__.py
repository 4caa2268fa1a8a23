"""What kproxy proves to brokers (SASL): for `kproxy doctor` and replay, its own requests, and the links of clients.

    client_settings.py   credentials, from a file as Kafka's own tools take it
    identities.py        as whom a virtual cluster logs in: its `login:`; tokens.py: tokens of identity providers and AWS
    secrets.py           where passwords are read from: files, the environment, the key-value engine of Vault
    kerberos.py          GSSAPI: tickets by a keytab
    log_in.py            SaslHandshake and SaslAuthenticate, on any connection that can ask; what each mechanism says

Nothing here speaks to brokers: kproxy.proxy.broker_login logs links in, BrokerClient (kproxy.proxy.broker_client) is for kproxy's
own requests. What fetches tokens and secrets blocks, and is called in a thread. What clients prove to kproxy is
kproxy.authentication; logins that pass through are read in kproxy.session.sasl. No text made here holds a password.

To add a mechanism: its tokens as a function of CONVERSATIONS in log_in.py, its name in Login.mechanism of kproxy.config.structs,
and in MECHANISMS of client_settings.py if a client's properties can name it.
"""
