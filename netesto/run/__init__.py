"""Runs a script: on hosts, in a lab on this machine, or its parts side by side in guests."""
