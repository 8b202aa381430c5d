"""Helpers of the fusing passes: order in a block, ports of an operand, editing of epilogues."""
