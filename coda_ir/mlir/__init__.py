"""Modules as `.mlir` text: reading with the places of operators, verifying, writing."""
