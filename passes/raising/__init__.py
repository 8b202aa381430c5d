"""Raising: calls of PyTorch become operators of the block level (`torch-to-coda`).

Convolutions and linear maps come first, so that activations, norms, rotary embeddings and
attention are found around them. `raise-elementwise` takes the pointwise calls, so that the patterns
of all these match operators of `coda`; `raise-library-calls` takes those that stay calls, but get
types and derivatives. `raise-group-biases` comes after that, because it reads how groups of rows
were numbered and counted.
A pattern matches what is computed, never the name of a module or a class.
"""
