"""Evaluation of a model through the whole product: browser, router, SGLang.

Held-out episodes of MiniWoB++ tasks are played by the model and by two baselines that need no
router. ``players`` play one episode, ``runner`` plays many at once, ``log`` keeps them on disk.
``scores`` and ``tables`` are pure: they make figures, a hash and tables of what was played.
"""
