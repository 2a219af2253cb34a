"""What became different between a recording and its replay. Pure: no browser, no router."""
