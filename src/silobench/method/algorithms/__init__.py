"""One file per paper, a few hooks each. `ALGORITHMS` names them; nothing here trains or communicates."""

from silobench.method.algorithms import baselines as _baselines
from silobench.method.algorithms import bsp as _bsp
from silobench.method.algorithms import dgc as _dgc
from silobench.method.algorithms import fedavg as _fedavg
from silobench.method.algorithms import fedbn as _fedbn
from silobench.method.algorithms import feddyn as _feddyn
from silobench.method.algorithms import fednova as _fednova
from silobench.method.algorithms import fedprox as _fedprox
from silobench.method.algorithms import fedrs as _fedrs
from silobench.method.algorithms import gaia as _gaia
from silobench.method.algorithms import moon as _moon
from silobench.method.algorithms import scaffold as _scaffold
from silobench.method.types import Algorithm
from silobench.spec import Registry

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
