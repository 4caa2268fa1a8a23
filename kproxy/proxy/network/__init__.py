"""Reaching and being reached: resolving, connecting, listening, TLS, PROXY protocol."""
