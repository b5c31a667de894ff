"""Agents on hosts with ssh: examines hosts, and installs, upgrades and removes agents, also for a
single run."""
