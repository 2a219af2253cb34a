"""Recordings as regression tests: finds them, replays them in each mode, writes what was found.

Joins the router's client, the browser and the recordings; the command line and the pytest plugin
are two ways to use it.
"""
