"""The imports of the process from which all planted faults are forked.

It has one thread: a child of a process with a pool of threads waits for ever where a library
expects the pool's other threads. So it is not the process of the tests, where any library may
have started some.
"""

import torch

from faults.fault import Corpus
from faults.registry import CHECKS

WARMING: dict[Corpus, str] = {
    "passes": "defer_norms-linear defer-norms",
    "kernels": "packed weights",
}
"""Programs that import and cache, here once, what each child would need first."""

torch.set_num_threads(1)
for corpus, name in WARMING.items():
    CHECKS[corpus][name]()
