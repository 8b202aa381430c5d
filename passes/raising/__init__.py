"""Raising: turns calls of PyTorch into operators of the block level (`torch-to-coda`).

Convolutions and linear maps come first, so that activations, norms, rotary embeddings and attention
are found around them. `raise-elementwise` raises pointwise calls, so that later patterns match
operators of `coda`. `raise-library-calls` raises calls that remain calls, but get types and
derivatives. `raise-group-biases` comes after it, because it reads how groups of rows are numbered
and counted. A pattern matches the computation, never the name of a module or a class.
"""
