"""Helpers shared by the tests; `support` is importable through pytest's `pythonpath`."""
