"""One file per paper, a few hooks each. `ALGORITHMS` names them; nothing here trains or communicates."""

from silobench.algorithms import baselines as _baselines
from silobench.algorithms import bsp as _bsp
from silobench.algorithms import dgc as _dgc
from silobench.algorithms import fedavg as _fedavg
from silobench.algorithms import fedbn as _fedbn
from silobench.algorithms import feddyn as _feddyn
from silobench.algorithms import fednova as _fednova
from silobench.algorithms import fedprox as _fedprox
from silobench.algorithms import fedrs as _fedrs
from silobench.algorithms import gaia as _gaia
from silobench.algorithms import moon as _moon
from silobench.algorithms import scaffold as _scaffold
from silobench.spec import Registry
from silobench.types import Algorithm

ALGORITHMS: Registry[Algorithm] = Registry("algorithm")

fedavg = ALGORITHMS.register(_fedavg.fedavg, later=("iter_local",))
fedprox = ALGORITHMS.register(_fedprox.fedprox)
scaffold = ALGORITHMS.register(_scaffold.scaffold)
fednova = ALGORITHMS.register(_fednova.fednova)
feddyn = ALGORITHMS.register(_feddyn.feddyn)
moon = ALGORITHMS.register(_moon.moon)
fedrs = ALGORITHMS.register(_fedrs.fedrs)
fedbn = ALGORITHMS.register(_fedbn.fedbn)
bsp = ALGORITHMS.register(_bsp.bsp)
fedsgd = ALGORITHMS.register(_bsp.fedsgd)
gaia = ALGORITHMS.register(_gaia.gaia)
dgc = ALGORITHMS.register(_dgc.dgc)
solo = ALGORITHMS.register(_baselines.solo)
combined = ALGORITHMS.register(_baselines.combined)
