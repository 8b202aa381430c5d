"""Random well-typed programs, the properties that hold for all of them, and a command to run both.

`generator` is importable through pytest's `pythonpath`; `make random` runs `python -m generator`.
"""
