"""Imports measurements of other tools, and their job files. All files are untrusted."""
