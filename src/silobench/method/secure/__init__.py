"""Secure sums: protocols by which a server learns the sum of vectors of integers, and not the vectors.

They are functions of keys and NumPy arrays; the transform `secure_sum` puts them to work. All parties are simulated in
one process. They are honest but curious: they follow the protocol and try to learn from what they see. The protocols
are from the literature and use the primitives of `cryptography`, but cryptographers have not reviewed this code.
"""

from silobench.method.secure.pairwise import Pairwise as Pairwise
from silobench.method.secure.protocol import Present as Present
from silobench.method.secure.protocol import StreamKeys as StreamKeys
from silobench.method.secure.protocol import SumProtocol as SumProtocol
from silobench.method.secure.protocol import TooFewError as TooFewError
from silobench.method.secure.protocol import Values as Values
from silobench.method.secure.ring import Ring as Ring
from silobench.method.secure.splits import Splits as Splits
