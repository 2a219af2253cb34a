"""FlashInfer is installed for the headers that agentserve's kernels are compiled with. A server on
the CPU has no use for it, and importing it takes seconds in each process."""

raise ModuleNotFoundError("flashinfer is of no use on the CPU", name="flashinfer")
