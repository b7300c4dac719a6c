"""Instrumentation of silobench by atheris, where it is installed: import this module before silobench.

Only `python -m fuzz` with that driver has it: the code is slower with it, and tests import all modules.
"""

import importlib.util
import sys

_main = getattr(sys.modules["__main__"], "__spec__", None)
_is_campaign = _main is not None and _main.name == "fuzz.__main__"
if _is_campaign and importlib.util.find_spec("atheris") and ("--drivers" not in sys.argv or "atheris" in sys.argv):
    import atheris

    atheris.instrument_imports(include=["silobench"]).__enter__()  # to the end: some modules are imported late
