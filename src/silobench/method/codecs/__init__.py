"""Layouts of one part of a message on the wire, one file each; a transform or an algorithm names the one it needs.

A new codec is a file here with a function decorated with `CODECS.register`, and a line below.
"""

from silobench.method.codecs.codec import CODECS as CODECS
from silobench.method.codecs.codec import Codec as Codec
from silobench.method.codecs.codec import Form as Form
from silobench.method.codecs.codec import Packed as Packed
from silobench.method.codecs.dense import DENSE as DENSE
from silobench.method.codecs.dense import dense as dense
from silobench.method.codecs.factors import Factoring as Factoring
from silobench.method.codecs.factors import factors as factors
from silobench.method.codecs.quantized import Bits as Bits
from silobench.method.codecs.quantized import quantized as quantized
from silobench.method.codecs.random_subset import random_subset as random_subset
from silobench.method.codecs.signs import SIGNS as SIGNS
from silobench.method.codecs.signs import signs as signs
from silobench.method.codecs.sparse import SPARSE as SPARSE
from silobench.method.codecs.sparse import Index as Index
from silobench.method.codecs.sparse import sparse as sparse
