"""The operations in Triton. Runs on a GPU, and on a CPU in Triton's interpreter."""
