"""Processes and their files: how they start, live and end."""
