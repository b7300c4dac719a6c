"""The spec language: text such as ``fedprox(mu=0.01)``, the values it stands for, and the registries that build them.

This package knows no names: algorithms, partitions, models and datasets register their own factories.
"""

from silobench.spec.language import Spec, Value, parse, parse_terms
from silobench.spec.registry import Bound, Registry

__all__ = ["Bound", "Registry", "Spec", "Value", "parse", "parse_terms"]
