"""Starts a guest as a program of its own would, to be interrupted or killed: GROUND ARGV…"""

import sys

from netesto.lab import guest, kernels

if __name__ == "__main__":
    ground, *argv = sys.argv[1:]
    kind = "sim" if ground == "sim" else "uml"
    sys.exit(guest.run(argv, kernel=kernels.need(kind)))
