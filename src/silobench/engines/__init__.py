"""Engines decide how and where parties train. Replies come in a fixed order, so sums do not depend on the workers.

An engine is a preference among modes (how: `modes/`) and an executor (where: `executor.py`, `workers.py`). Public names
are listed in ``__init__.pyi``. They load on first use, so the self-test of a compiled step does not wait for PyTorch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
