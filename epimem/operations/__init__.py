"""The operations on the tree: pure functions from a tree and a proposal to a tree or a refusal."""
