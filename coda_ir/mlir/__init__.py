"""Modules as `.mlir` text: reading with source locations, verifying, writing."""
