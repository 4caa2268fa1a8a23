"""The engine: byte streams to sessions to events to outputs."""
