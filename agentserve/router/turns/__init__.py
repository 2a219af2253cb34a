"""Turns: what is asked, what waits and runs, what is planned, told and stored of it."""
