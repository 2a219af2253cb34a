"""The operations in plain torch, vectorised: any device, and where nothing faster can run."""
