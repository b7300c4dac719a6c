"""Controllers set knobs between rounds; the knobs are part of the broadcast, so algorithms need not know controllers.

A new controller is a file here with a function decorated with `CONTROLLERS.register`, and a line below.
"""

from silobench.method.control import CONTROLLERS as CONTROLLERS
from silobench.method.control import fixed as fixed
from silobench.method.controllers.oracle import oracle as oracle
from silobench.method.controllers.skewscout import skewscout as skewscout
