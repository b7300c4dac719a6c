"""Paces: when the server takes its step, one file each.

A new pace is a file here with a function decorated with `PACES.register`, and a line below.
"""

from silobench.loop.paces.buffered import buffered as buffered
from silobench.loop.paces.buffered import fedasync as fedasync
from silobench.loop.paces.pace import PACES as PACES
from silobench.loop.paces.pace import Flight as Flight
from silobench.loop.paces.pace import Pace as Pace
from silobench.loop.paces.pace import packed as packed
from silobench.loop.paces.pace import unpacked as unpacked
from silobench.loop.paces.synchronous import synchronous as synchronous
