"""One connection as a conversation: bytes of both directions with their times in, events out. No I/O, no clock."""
