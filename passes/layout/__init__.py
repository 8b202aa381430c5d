"""Layout: the schedules of kernels and their memory.

`own-results`, `accumulate-in-place`, `place-parts` and `state-reduction-order` are the last passes
of the GEMM level. `schedule` gives each GEMM tiles, warps and stages. It runs `number-groups`, for
few rows of many groups, and `absorb-finalize` and `overlap-launches`, which save launch time.
`plan-buffers` lets values share memory. `leave-plain-gemms` and `outline-programs` prepare graphs
for Inductor.
"""
