"""Exchanges: what happens between the parties' replies and the next state, one file each.

A new exchange is a file here with a function decorated with `EXCHANGES.register`, and a line below.
"""

from silobench.loop.exchanges.exchange import EXCHANGES as EXCHANGES
from silobench.loop.exchanges.exchange import LOST as LOST
from silobench.loop.exchanges.exchange import Exchange as Exchange
from silobench.loop.exchanges.exchange import Meeting as Meeting
from silobench.loop.exchanges.exchange import Outcome as Outcome
from silobench.loop.exchanges.gossip import gossip as gossip
from silobench.loop.exchanges.mixing import mixing as mixing
from silobench.loop.exchanges.star import MESH as MESH
from silobench.loop.exchanges.star import STAR as STAR
from silobench.loop.exchanges.star import mesh as mesh
from silobench.loop.exchanges.star import star as star
