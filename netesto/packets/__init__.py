"""Captured packets, from the bytes of a file to what became of each flow. Pure but for reading."""
