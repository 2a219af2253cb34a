"""Eviction after the answer: tokens leave the KV cache, what is left is not computed anew.

``change`` reads from a request what is to leave (in the HTTP server's process). In the scheduler's,
``keys`` says what the rest is called in the prefix tree, ``memory`` finds it again for a later
prompt and knows who else needs what, and ``cache`` moves slots accordingly.

The key of a prefix says all that its KV depends on. KV behind a removal was computed with the
removed tokens in sight; the same tokens computed from what is left (*rebuilt*) have other KV. So:

- A seal that nothing more is known of runs and is stored under its own sentinels: rebuilt KV.
- A seal made in place is stored under sentinels that are derived from all the keys before it at
  the time, those of the removed tokens included. No client can know these. The cache remembers
  them, by the prompt that clients send instead, and takes them for all that a prompt has of the
  remembered sequence or not at all: if a part of that is gone, what follows would be computed
  under a key that is not its.
"""
