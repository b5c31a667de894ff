"""Data that other tools have measured, and their job files, brought in. All files are untrusted."""
