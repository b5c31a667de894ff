"""Captured packets, from the bytes of a file to the analysis of each flow. Pure except for
reading."""
