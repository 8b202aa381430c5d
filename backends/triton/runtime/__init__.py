"""The functions that emitted modules share: what a module uses of them is copied into it.

Nothing of the compiler imports these modules, but for their text: see `definitions.py`.
"""
