"""Fuzzing of everything that reads text: an oracle, a mutator, and a coverage-guided engine."""
