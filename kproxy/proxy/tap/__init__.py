"""Memory that processes share: the tap ring and the counters."""
