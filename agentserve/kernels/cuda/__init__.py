"""The operations in CUDA (``csrc``), built and loaded by FlashInfer's JIT."""
