"""scikit-learn's linear estimators as models, and trained coefficients as fitted estimators."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.models.mlp import Mlp
from silobench.models.model import Model

Kind = Literal["classes", "numbers"]
_KINDS: Mapping[str, Kind] = {
    "LogisticRegression": "classes",
    "SGDClassifier": "classes",
    "Perceptron": "classes",
    "LinearRegression": "numbers",
    "Ridge": "numbers",
    "SGDRegressor": "numbers",
}
_LOSSES = {"log_loss": "auto", "hinge": "hinge", "squared_hinge": "hinge(squared=true)", "squared_error": "auto"}
_NONE = (None, "deprecated", 0, 0.0)  # values of `l1_ratio` and others that ask for nothing


def is_estimator(value: Any) -> bool:
    """Whether a value is an estimator of scikit-learn, or a class of such; it does not import scikit-learn."""
    kind = value if isinstance(value, type) else type(value)
    return any(base.__module__ == "sklearn.base" and base.__name__ == "BaseEstimator" for base in kind.__mro__)


@dataclass(frozen=True)
class LinearEstimator(Model):
    """A linear estimator as a model: the network `linear` with the estimator's loss.

    `penalty` is the estimator's factor of the squared norm, by the number of rows. A fitted estimator is where training
    starts.
    """

    estimator: Any = None
    kind: Kind = "classes"
    objective: str = "auto"  # spec of the objective that has the estimator's loss
    penalty: Callable[[int], float] = lambda rows: 0.0

    @property
    def is_fitted(self) -> bool:
        return hasattr(self.estimator, "coef_")

    def weight_decay(self, rows: int, classes: int) -> float:
        """Return the solver's weight decay that equals the estimator's penalty; the solver's also holds for the bias.

        An estimator has one line w for two classes, and the network has two. Under cross-entropy these are w/2 and -w/2
        at the optimum, with half of the squared norm.
        """
        return self.penalty(rows) / (_share_of_two(self.objective) if classes == 2 else 1.0)

    def start(self, module: nn.Module, classes: Sequence[str], mean: float, scale: float) -> None:
        """Write the coefficients of a fitted estimator to the network; `mean` and `scale` are those of the target."""
        if not self.is_fitted:
            return
        layer = _layer(module)
        weight = np.atleast_2d(np.asarray(self.estimator.coef_, np.float64))
        bias = np.broadcast_to(np.asarray(self.estimator.intercept_, np.float64).reshape(-1), weight.shape[:1])
        if weight.shape[1] != layer.in_features:
            raise ConfigError(
                f"{self.name} was fitted on rows of {weight.shape[1]} numbers, but rows of this dataset have "
                f"{layer.in_features}: fit it on rows of the dataset, or give one that is not fitted."
            )
        if self.kind == "numbers":
            weight, bias = weight / scale, (bias - mean) / scale
        else:
            order = self._order(classes)
            if len(classes) == 2:  # one line for the second class; ours has one for each
                share = _share_of_two(self.objective)
                weight, bias = (np.stack([-part[0], part[0]]) * share for part in (weight, bias))
            weight, bias = weight[order], bias[order]
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))

    def _order(self, classes: Sequence[str]) -> list[int]:
        """Return the places of the dataset's classes among the estimator's."""
        names = [str(name) for name in self.estimator.classes_.tolist()]
        if sorted(names) != sorted(classes):
            raise ConfigError(
                f"{self.name} was fitted for the classes {', '.join(names[:5])}, but the dataset has "
                f"{', '.join(list(classes)[:5])}: fit it on the labels of the dataset, or give one that is not fitted."
            )
        return [names.index(name) for name in classes]


def of_estimator(estimator: Any) -> LinearEstimator:
    """Return an estimator as a model; raise `ConfigError` if it, or one of its choices, has no counterpart."""
    name = next((base.__name__ for base in type(estimator).__mro__ if base.__name__ in _KINDS), None)
    if name is None:
        raise ConfigError(
            f"{type(estimator).__name__} has no counterpart as a network: of scikit-learn's estimators, "
            f"{', '.join(_KINDS)} have one; write any other as a torch.nn.Module."
        )
    choices = estimator.get_params()
    loss = "perceptron" if name == "Perceptron" else str(choices.get("loss", ""))
    _check_choices(name, choices)
    if loss == "perceptron":
        objective = "hinge(margin=0)"
    elif loss and loss not in _LOSSES:
        raise _no_counterpart(name, "loss", loss, f"use loss={', '.join(_LOSSES)}")
    else:
        objective = _LOSSES.get(loss, "auto")
    if choices.get("class_weight") is not None:
        objective = "cross-entropy(weights=balanced)"
    return LinearEstimator(
        lambda sizes: Mlp(sizes, (), "torch"),
        name=name,
        estimator=estimator,
        kind=_KINDS[name],
        objective=objective,
        penalty=_penalty(name, choices),
    )


def _check_choices(name: str, choices: Mapping[str, Any]) -> None:
    """Refuse choices of an estimator that change its problem and that the network lacks."""
    if not choices.get("fit_intercept", True):
        raise _no_counterpart(name, "fit_intercept", False, "leave it out")
    if choices.get("positive"):
        raise _no_counterpart(name, "positive", True, "leave it out")
    if choices.get("penalty", None) not in (*_NONE, "l2"):
        raise _no_counterpart(name, "penalty", choices["penalty"], "use l2 or none")
    if name == "LogisticRegression" and choices.get("l1_ratio") not in _NONE:
        raise _no_counterpart(name, "l1_ratio", choices["l1_ratio"], "leave it out")
    weights, has_log_loss = choices.get("class_weight"), choices.get("loss", "log_loss") == "log_loss"
    if weights is not None and not (isinstance(weights, str) and has_log_loss and name != "Perceptron"):
        raise _no_counterpart(name, "class_weight", weights, 'leave it out, or use "balanced" and the log loss')
    if np.ndim(choices.get("alpha", 0)):
        raise _no_counterpart(name, "alpha", "several numbers", "give one number")


def _no_counterpart(name: str, choice: str, value: Any, remedy: str) -> ConfigError:
    return ConfigError(f"{name} has {choice}={value}, which has no counterpart as a network here: {remedy}.")


def _penalty(name: str, choices: Mapping[str, Any]) -> Callable[[int], float]:
    """Return the factor of ½|w|² beside the mean loss of the network, by the number of rows.

    LogisticRegression minimises C Σ loss + ½|w|², Ridge Σ error² + α|w|², and the SGD estimators the mean loss +
    ½α|w|², in which the squared error counts half.
    """
    if name in ("LinearRegression", "Perceptron") and choices.get("penalty") is None:
        return lambda rows: 0.0
    if name == "LogisticRegression":
        strength = 0.0 if choices.get("penalty", "l2") is None or math.isinf(choices["C"]) else 1 / choices["C"]
        return lambda rows: strength / rows
    alpha = float(choices["alpha"])
    if name == "Ridge":
        return lambda rows: 2 * alpha / rows
    strength = 0.0 if choices["penalty"] is None else alpha
    return lambda rows: 2 * strength if name == "SGDRegressor" else strength


def _share_of_two(objective: str) -> float:
    """Return the factor of a binary estimator's line in each of the network's two lines.

    Cross-entropy knows the difference of the two outputs only, so each has half; the hinge loss judges each by itself.
    """
    return 1.0 if objective.startswith("hinge") else 0.5


def _layer(module: nn.Module) -> nn.Linear:
    """Return the one linear layer of a network; raise `ConfigError` if the network is not linear."""
    layers = module.layers if isinstance(module, Mlp) else [module]
    if len(layers) != 1 or not isinstance(layers[0], nn.Linear):
        raise ConfigError(
            f"the network {type(module).__name__} is not linear, so its weights are not the coefficients of an "
            "estimator: use the model linear or an estimator."
        )
    return layers[0]


def fit_estimator(
    estimator: Any, module: nn.Module, classes: Sequence[str], objective: str, mean: float, scale: float
) -> Any:
    """Return a copy of an estimator with the coefficients of a trained linear network.

    `objective` is the name of the run's objective; `mean` and `scale` are those of a numeric target.
    """
    from sklearn.base import clone

    kind = of_estimator(estimator).kind
    if kind != ("classes" if classes else "numbers"):
        raise ConfigError(
            f"{type(estimator).__name__} predicts {kind}, but the run predicts {'classes' if classes else 'numbers'}: "
            "give an estimator of the other kind."
        )
    layer, fitted = _layer(module), clone(estimator)
    weight, bias = (_double(tensor) for tensor in (layer.weight, layer.bias))
    if not classes and len(weight) > 1:  # several numbers
        weight, bias = weight * scale, bias * scale + mean
    elif not classes:
        weight, bias = weight[0] * scale, bias * scale + mean
    elif len(classes) == 2:
        share = _share_of_two(objective)
        weight, bias = ((part[1:] - part[:1]) / (2 * share) for part in (weight, bias))
    fitted.coef_, fitted.intercept_, fitted.n_features_in_ = weight, bias, layer.in_features
    fitted.n_iter_ = 0
    if classes:
        fitted.classes_ = np.array(classes)
    elif type(fitted).__name__ in ("LinearRegression", "Ridge") and len(bias) == 1:
        fitted.intercept_ = float(bias[0])
    return fitted


def _double(tensor: Tensor) -> NDArray[np.float64]:
    values: NDArray[np.float64] = tensor.detach().cpu().double().numpy()
    return values
