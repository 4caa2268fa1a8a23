"""Events as a pcapng file: ``-o pcapng`` and ``--tap pcapng``.

event_packets.py   an event's bytes as packets with comments, credentials withheld
synthetic_tcp.py   the packets of a TCP connection that carries given bytes
blocks.py          the blocks of a pcapng file
"""
