"""Netesto, a toolkit for network experiments: one script, any ground."""

__version__ = "0.1.0"
