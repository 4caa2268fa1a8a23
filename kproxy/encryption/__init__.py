"""Records that brokers cannot read: encrypted on the way to the brokers, decrypted on the way to consumers.

services/   what holds the keys that wrap data keys
"""
