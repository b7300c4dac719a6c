"""The parts of a method: algorithms, solvers, transforms, server optimizers, selections, controllers.

Nothing here trains, sends or writes: `training`, `engines` and `loop` do.
"""
