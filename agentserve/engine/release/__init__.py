"""Sessions that are over give their KV back at once, and not when SGLang wants the room.

``routes`` is what the router calls, in the HTTP server's process. It sends a message to the
scheduler's, of a kind that SGLang has for its debugger: ``hooks`` answers it.
"""
