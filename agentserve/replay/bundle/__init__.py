"""The bundle: one recording on the disk, as models, read and written."""
