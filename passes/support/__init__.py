"""Helpers of passes: order in a block, ports of operands, editing of epilogues."""
