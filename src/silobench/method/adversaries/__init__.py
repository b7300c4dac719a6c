"""Adversaries: what malicious parties do, one file each.

A new adversary is a file here with a function decorated with `ADVERSARIES.register`, and a line below.
"""

from silobench.method.adversaries.adversary import ADVERSARIES as ADVERSARIES
from silobench.method.adversaries.adversary import Adversary as Adversary
from silobench.method.adversaries.adversary import none as none
from silobench.method.adversaries.label_flip import label_flip as label_flip
from silobench.method.adversaries.noise import noise as noise
from silobench.method.adversaries.sign_flip import sign_flip as sign_flip
