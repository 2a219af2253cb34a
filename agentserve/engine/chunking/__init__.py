"""Where prefill may be cut: never inside a picture that fits a chunk.

A cut picture is embedded twice, and what depends on the whole of it (a pruning inside the model)
has no place to happen. A prompt of which tokens are chosen while it is computed gets one chunk from
the first of them to its end, however long: other streams wait for that.
"""
