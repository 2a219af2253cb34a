"""The router beside other routers: what it survives, and what it costs."""
