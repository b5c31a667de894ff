"""Traces of the course CS 145: requests and flows, each with its time and host."""
