"""Connecting to brokers and accepting clients, below Kafka: no module here knows what a frame is.

Towards brokers

    upstream.py               Upstream: connects to the brokers of one cluster; tries every address of a name in bounded time.
                              Resolver: names, with a cache
    outbound_proxy.py         OutboundProxy: SOCKS5 or HTTP CONNECT (setting ``through``)

Towards clients

    listening.py              listening sockets and the options that accepted ones inherit; whether addresses are free
    lingering_close.py        closing without losing what was sent
    http_server.py            PageServer: HTTP/1.1 for an ASGI application, for the live page and the admin server

Both

    tls.py                    TLS contexts, certificate reload, principals and SNI
    proxy_protocol.py         PROXY protocol v1 and v2, reading and writing bytes
    socket_addresses.py       socket tuples and struct sockaddr; internal addresses; transparent mode: the destination before
                              netfilter redirected a client, and redirection loops. Addresses as text: kproxy.protocol.addresses

Socket options and ``KEEPALIVE`` are in upstream.py. link_opening.py has the order of the steps in which a link is opened.
To add a way to a broker (another proxy protocol, a tunnel): a class with ``connect`` as OutboundProxy has it, used by
``Upstream._connect_address``.
"""
