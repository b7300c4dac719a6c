"""Defences at the cut, one file each.

A new one is a function decorated with `DEFENCES.register`, and a line below.
"""

from silobench.vertical.defences.defence import DEFENCES as DEFENCES
from silobench.vertical.defences.defence import Defence as Defence
