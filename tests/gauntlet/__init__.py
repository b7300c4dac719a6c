"""The fault gauntlet: what goes wrong while silobench works, and what is left of the results afterwards.

`python -m gauntlet` (`make gauntlet`) tries every fault and prints a table. The short forms in this folder are tests.
"""

from gauntlet.caches import damaged_data, damaged_kernels
from gauntlet.damage import damaged_runs
from gauntlet.disturbances import disturbed_runs
from gauntlet.kills import kills
from gauntlet.outcome import Fault
from gauntlet.studies import damaged_studies

FAULTS: tuple[Fault, ...] = (
    Fault("kills", kills),
    Fault("damaged runs", damaged_runs),
    Fault("damaged studies", damaged_studies),
    Fault("damaged data", damaged_data),
    Fault("damaged kernels", damaged_kernels),
    Fault("disturbances", disturbed_runs),
)
