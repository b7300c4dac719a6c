"""Networks as vectors: `MODELS` names the architectures, `Network` lays one out flat."""

from silobench.models.architectures import MODELS, Cnn, Mlp, Model, Sizes, bag, cnn, linear, mlp
from silobench.models.classics import alexnet, googlenet
from silobench.models.deep import resnet, vgg9
from silobench.models.faces import face_cnn
from silobench.models.lenet import lenet
from silobench.models.network import Classifier, Network, OwnLoss
from silobench.models.published import kws, mcmahan_cifar, mcmahan_mnist

__all__ = [
    "MODELS",
    "Classifier",
    "Cnn",
    "Mlp",
    "Model",
    "Network",
    "OwnLoss",
    "Sizes",
    "alexnet",
    "bag",
    "cnn",
    "face_cnn",
    "googlenet",
    "kws",
    "lenet",
    "linear",
    "mcmahan_cifar",
    "mcmahan_mnist",
    "mlp",
    "resnet",
    "vgg9",
]
