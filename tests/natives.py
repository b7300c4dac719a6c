"""Whether there is a native step on this machine: what needs one is skipped where there is no compiler."""

import pytest

from silobench.engines.kernel import why_not

needs_native = pytest.mark.skipif(why_not() is not None, reason=f"no native step, because {why_not()}")
FIRST_CHOICE = "stacked" if why_not() else "native"  # of auto, for a multilayer perceptron
