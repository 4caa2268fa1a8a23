"""Connecting to brokers and accepting clients, below Kafka: nothing here knows a frame.

Towards brokers

    upstream.py               Upstream: the way to the brokers of one cluster; tries every address of a name in bounded time
    resolver.py               Resolver: names to addresses, cached; addresses that failed lately come last
    outbound_proxy.py         SOCKS5 or HTTP CONNECT on the way (setting ``through``)

Towards clients

    listening.py              listening sockets and the options that accepted ones inherit
    address_check.py          are the addresses free? Asked once, by the supervisor
    original_destination.py   transparent mode: the destination before netfilter redirected a client; redirection loops
    lingering_close.py        closing without losing what was sent
    http_server.py            the page and the admin server: their listening socket, and uvicorn's settings

Both

    tls.py                    TLS contexts, certificate reload, principals and SNI
    proxy_protocol.py         PROXY protocol v1 and v2, in and out. Bytes only
    socket_addresses.py       socket tuples and struct sockaddr; internal addresses. Address text is kproxy.protocol.addresses'

``KEEPALIVE`` and socket options stand in upstream.py. The order of the steps when a link is opened is in link_opening.py.
To add a way to a broker (another proxy protocol, a tunnel): a class beside OutboundProxy with ``connect``, used by
``Upstream._connect_address``.
"""
