"""Planted faults: does the machinery that checks rewrites and kernels see a wrong one?

    PYTHONPATH=tests python -m faults [NAME ...]

Each fault is a small change of the syntax tree of one function, and changes what programs compute.
It is planted in a process of its own, which then checks programs until one fails: pass by pass on
the reference backend, or the emitted kernels on Triton's interpreter against the reference. The
tests plant a sample, and run only the program that `first_cases.json` names for a fault. The
command, a nightly run, plants all faults and tries all programs.
"""
