"""Split networks, one file per family.

A new one is a function decorated with `VERTICAL_MODELS.register`, and a line below.
"""

from silobench.vertical.networks.basic import linear as linear
from silobench.vertical.networks.basic import mlp as mlp
from silobench.vertical.networks.basic import oarf_mlp as oarf_mlp
from silobench.vertical.networks.cuts import CUTS as CUTS
from silobench.vertical.networks.network import VERTICAL_MODELS as VERTICAL_MODELS
from silobench.vertical.networks.network import Cut as Cut
from silobench.vertical.networks.network import Halves as Halves
from silobench.vertical.networks.network import SplitNetwork as SplitNetwork
from silobench.vertical.networks.network import VerticalModel as VerticalModel
from silobench.vertical.networks.network import VerticalSizes as VerticalSizes
from silobench.vertical.networks.recommendation import dlrm as dlrm
from silobench.vertical.networks.recommendation import ncf as ncf
