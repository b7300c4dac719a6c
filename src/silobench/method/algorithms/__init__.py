"""Federated algorithms, one file per paper, each a few hooks of `silobench.method.types.Algorithm`.

A new algorithm is a file here with a function decorated with `ALGORITHMS.register`, and a line below. To make it public
as ``silobench.NAME``, add a line to ``silobench/__init__.pyi``.
"""

from silobench.method.algorithms.apfl import apfl as apfl
from silobench.method.algorithms.baselines import combined as combined
from silobench.method.algorithms.baselines import solo as solo
from silobench.method.algorithms.bsp import bsp as bsp
from silobench.method.algorithms.bsp import fedsgd as fedsgd
from silobench.method.algorithms.dgc import dgc as dgc
from silobench.method.algorithms.ditto import ditto as ditto
from silobench.method.algorithms.fedavg import fedavg as fedavg
from silobench.method.algorithms.fedbn import fedbn as fedbn
from silobench.method.algorithms.feddyn import feddyn as feddyn
from silobench.method.algorithms.fednova import fednova as fednova
from silobench.method.algorithms.fedper import fedper as fedper
from silobench.method.algorithms.fedprox import fedprox as fedprox
from silobench.method.algorithms.fedrep import fedrep as fedrep
from silobench.method.algorithms.fedrs import fedrs as fedrs
from silobench.method.algorithms.finetune import finetune as finetune
from silobench.method.algorithms.gaia import gaia as gaia
from silobench.method.algorithms.moon import moon as moon
from silobench.method.algorithms.perfedavg import perfedavg as perfedavg
from silobench.method.algorithms.pfedme import pfedme as pfedme
from silobench.method.algorithms.scaffold import scaffold as scaffold
from silobench.method.types import ALGORITHMS as ALGORITHMS
