"""What the keys of an experiment mean: parts of some keys are others where parties hold columns instead of rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from silobench.measures import MEASURES
from silobench.method.algorithms import ALGORITHMS
from silobench.models import MODELS
from silobench.partitions import bind_sum
from silobench.spec import Registry
from silobench.vertical.leaks import VERTICAL_MEASURES
from silobench.vertical.methods import VERTICAL_ALGORITHMS
from silobench.vertical.networks import VERTICAL_MODELS


@dataclass(frozen=True)
class Keys:
    """The registries of keys whose parts depend on the kind of learning, and the defaults of such keys."""

    model: Registry[Any]
    algorithm: Registry[Any]
    measure: Registry[Any]
    defaults: Mapping[str, str] = field(default_factory=dict)
    is_vertical: bool = False


HORIZONTAL_KEYS = Keys(MODELS, ALGORITHMS, MEASURES)
VERTICAL_KEYS = Keys(
    VERTICAL_MODELS,
    VERTICAL_ALGORITHMS,
    VERTICAL_MEASURES,
    {"model": "mlp", "algorithm": "split", "solver": "adam(epochs=1)"},
    is_vertical=True,
)


def keys_of(partition: Any) -> Keys:
    """Return what keys mean with a partition; anything that is not text is refused later."""
    if not isinstance(partition, str):
        return HORIZONTAL_KEYS
    deals_columns = any(term.build().deal is not None for term in bind_sum(partition))
    return VERTICAL_KEYS if deals_columns else HORIZONTAL_KEYS
