"""The supervisor process: starts, watches and stops the others."""
