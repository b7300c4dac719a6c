"""silobench: learn from data that cannot leave its silos.

Public names are listed in ``__init__.pyi``. They load on first use, so that the command line answers quickly.
"""

import lazy_loader

__version__ = "1.0.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*__all__, "__version__"])


def __dir__() -> list[str]:
    return __all__
