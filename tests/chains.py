"""Chains of transforms and codecs for tests of compression, and what arrives of an update that goes through one."""

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import torch

from silobench.method.chain import Sent, send
from silobench.method.codecs import CODECS, Codec, Packed
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Layout, Memory, Transform, Update

CONTEXT = Context(0, 0, 0, Layout((), (), 0), {})
LOSSY = [
    "rand_k(fraction=0.3)",
    "rand_k(fraction=0.3, scale=false, feedback=true)",
    "low_rank(rank=1)",
    "low_rank(rank=1, warm_start=false, feedback=false)",
    "quantize(bits=4)",
    "error_feedback | sign",
]
CHAINS = [
    *LOSSY,
    "sign",
    "quantize(bits=2, bucket=7)",
    "quantize(bits=16)",
    "top_k(fraction=0.3) | quantize(bits=8)",
    "top_k(fraction=0.3, index=int64) | sign",
    "rand_k(fraction=0.5) | quantize(bits=4, bucket=5)",
    "low_rank(rank=1) | quantize",
    "error_feedback(decay=0.5) | top_k(fraction=0.2, feedback=false, index=bitmap) | quantize(bits=2)",
]


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(term.build() for term in bind_chain(text))


def sent(update: Update, text: str, memories: Sequence[Memory] | None = None, context: Context = CONTEXT) -> Sent:
    transforms = chain(text)
    return send(update, transforms, memories or [{} for _ in transforms], context)


def arrived(part: Any, codec: Codec) -> Any:
    return Packed.of(torch.from_numpy(np.asarray(part)), codec).unpack().numpy()


def layout(*shapes: tuple[int, ...]) -> Layout:
    sizes = tuple(map(torch.Size, shapes))
    return Layout(tuple(f"w{place}" for place in range(len(sizes))), sizes, sum(size.numel() for size in sizes))


def around(outer: Codec, inner: Codec) -> Codec:
    assert outer.values is not None
    return outer.values(inner)


@cache
def composed(text: str) -> Codec:
    first, *others = [CODECS.build(term) for term in text.split(" | ")]
    return reduce(around, others, first)
