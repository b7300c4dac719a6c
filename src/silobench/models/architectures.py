"""The former name of `silobench.models.small`, for modules that still import from here."""

from silobench.models.small import Cnn as Cnn
from silobench.models.small import Mlp as Mlp
