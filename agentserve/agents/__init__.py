"""One agent on one page: opened, run, recorded."""
