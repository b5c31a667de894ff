"""Agents on hosts that have ssh: looked at, installed, upgraded, removed, or there for one run."""
