"""The ways in which a recording is replayed."""
