"""Events as a pcapng file, for ``kproxy decode --format pcapng`` and ``kproxy run --capture``.

event_packets.py   an event's bytes as packets with comments, credentials withheld
synthetic_tcp.pyx  the packets of a TCP connection that carries given bytes
blocks.pyx         the blocks of a pcapng file
"""
