"""Apple's pfl, as its tutorials write it, with the maths of the other contenders.

Settings: contributions weighted by rows (`WeightByDatapoints`; without it pfl weights all users equally); the central
optimizer is SGD with rate 1, so the average becomes the new model; cohorts are drawn without replacement (pfl's
samplers draw with replacement, or cyclically); rows come in a new order each epoch, with the last short batch (pfl's
datasets do not shuffle); no evaluation on users (`evaluation_frequency`), but on the central test set. pfl makes a new
local optimizer for each user, so momentum restarts. The CNN runs in pfl's distributed mode, one process of one thread
per core; the small networks run in one process. The two modes were not compared.
"""
