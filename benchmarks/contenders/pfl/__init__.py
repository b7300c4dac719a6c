"""Apple's pfl, as its tutorials write it, with the maths of the other contenders.

Pinned: contributions weighted by rows (`WeightByDatapoints`; without it pfl takes all users alike); the central
optimizer is SGD of rate 1, which makes the average the new model; cohorts are drawn without replacement (pfl's samplers
draw with replacement, or in a circle); rows come in a new order each epoch, the last short batch kept (pfl's own
datasets keep their order); no evaluation on users (`evaluation_frequency`), and the test set centrally instead. A new
local optimizer for each user, and so no momentum, is pfl's own way. For the CNN it runs one process a core, of one
thread each, by its own distributed mode; for the small networks, one process. Each was chosen, not measured against the
other.
"""
