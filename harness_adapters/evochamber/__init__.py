"""EvoChamber: a pool of agents that evolves at test time, as individuals, as teams, as a population.

Source of the method: arXiv 2605.11136v1 and a Chinese reading of it that prints the formulas. The
authors' code was not used. What neither says is ours, and marked so in `settings`.
"""
