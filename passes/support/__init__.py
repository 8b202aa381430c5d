"""What the fusing passes share: order in a block, ports of an operand, editing of epilogues."""
