"""Planted faults: does the machinery that checks rewrites and kernels see a wrong one?

    PYTHONPATH=tests python -m faults [NAME ...]

Each fault is a small change of the product's source that changes what programs compute. It is
planted in a process of its own, which then checks programs until one fails: pass by pass on the
reference backend, or the emitted kernels on Triton's interpreter against the reference. The tests
run only the program that `first_cases.json` names for a fault; the command tries all of them.
"""
