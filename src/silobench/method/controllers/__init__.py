"""Controllers choose knobs between rounds; the knobs travel in the broadcast, so no algorithm knows them."""

from silobench.method.control import Controller
from silobench.method.controllers.oracle import oracle as _oracle
from silobench.method.controllers.skewscout import skewscout as _skewscout
from silobench.spec import Registry

CONTROLLERS: Registry[Controller] = Registry("controller")


@CONTROLLERS.register
def fixed() -> Controller:
    """Leaves every knob as the specs set it."""
    return Controller()


skewscout = CONTROLLERS.register(_skewscout)
oracle = CONTROLLERS.register(_oracle)
