"""The parts of a method: algorithms, solvers, transforms, server optimizers, selections, controllers.

They are values and functions; `training`, `engines` and `loop` put them to work.
"""

import silobench.method.checks
import silobench.method.message_checks  # noqa: F401  # both state what the hooks of plugins must return
