"""The host program of an emitted module: the function that allocates, launches and returns.

`program` collects its statements while `operators` writes one operator after the other; `run`
makes a function of them. Beside these: `extents` and `buffers` know sizes and lifetimes, `kernels`
and `launches` how kernels are called, `functions` what is copied from `runtime/`, and `text` the
lines of calls.
"""
