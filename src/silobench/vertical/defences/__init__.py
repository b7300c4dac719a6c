"""Defences: what parties do to activations and gradients before they cross the cut, one file per defence.

A new defence is a file here with a function decorated with `DEFENCES.register`, and a line below.
"""

from silobench.vertical.defences.defence import DEFENCES as DEFENCES
from silobench.vertical.defences.defence import Defence as Defence
from silobench.vertical.defences.marvell import marvell as marvell
from silobench.vertical.defences.max_norm import max_norm as max_norm
from silobench.vertical.defences.noise import noise as noise
from silobench.vertical.defences.nopeek import nopeek as nopeek
