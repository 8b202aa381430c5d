"""Raising: calls of PyTorch become operators of the block level (`torch-to-coda`).

Convolutions and linear maps come first, so that activations, norms, rotary embeddings and
attention are found around them; `raise-elementwise` takes the remaining pointwise calls last,
and `raise-library-calls` those that stay calls, but get types and derivatives. `raise-group-biases`
comes after that, because it reads how groups of rows were numbered and counted.
A pattern matches what is computed, never the name of a module or a class.
"""
