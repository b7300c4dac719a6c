"""Networks as flat vectors: `MODELS` names the architectures, `Network` stores the parameters of one as a vector.

A new architecture is a file with a `Classifier` and a function decorated with `MODELS.register`, and a line here.
"""

from silobench.models.alexnet import alexnet as alexnet
from silobench.models.face_cnn import face_cnn as face_cnn
from silobench.models.googlenet import googlenet as googlenet
from silobench.models.gru import gru as gru
from silobench.models.kws import kws as kws
from silobench.models.lenet import lenet as lenet
from silobench.models.lstm import lstm as lstm
from silobench.models.mcmahan import mcmahan_cifar as mcmahan_cifar
from silobench.models.mcmahan import mcmahan_mnist as mcmahan_mnist
from silobench.models.model import Model as Model
from silobench.models.model import Sizes as Sizes
from silobench.models.module_file import module as module
from silobench.models.network import Classifier as Classifier
from silobench.models.network import CustomLoss as CustomLoss
from silobench.models.network import Network as Network
from silobench.models.registry import MODELS as MODELS
from silobench.models.resnet import resnet as resnet
from silobench.models.small import Cnn as Cnn
from silobench.models.small import Mlp as Mlp
from silobench.models.small import bag as bag
from silobench.models.small import cnn as cnn
from silobench.models.small import linear as linear
from silobench.models.small import mlp as mlp
from silobench.models.sources import as_model as as_model
from silobench.models.vgg import vgg9 as vgg9

OwnLoss = CustomLoss  # the earlier name
