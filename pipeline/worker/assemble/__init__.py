"""The role `assemble`: events become turns, with a checkpoint that loses nothing."""
