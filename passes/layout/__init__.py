"""Layout: kernels, their schedules and their memory.

`own-results`, `accumulate-in-place`, `place-parts` and `state-reduction-order` end the GEMM level.
`schedule` gives each GEMM its tiles, warps and stages; `number-groups` lets few rows name their
groups for it, `absorb-finalize` and `overlap-launches`
save launches, and `plan-buffers` lets values share memory. `leave-plain-gemms` and
`outline-programs` prepare graphs for Inductor.
"""
