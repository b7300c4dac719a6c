"""Measure how fast transforms encode and decode a message, on one core.

python benchmarks/codecs.py                                     # 10 million values, the best of 7 repeats
python benchmarks/codecs.py --values 1000000 "top_k | quantize(bits=4)"

A speed is megabytes of the values (4 bytes each) per core-second. Encoding is the whole way at the party: transforms,
packing and error feedback, in a round after the first, so that there is something to feed back. Decoding is unpacking
at the server. `top_k` and `quantize` are meant to reach 200 MB/s both ways.
"""

import argparse
import time
from collections.abc import Callable

import torch

from silobench.method.chain import Sent, send
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Layout, Update

GOAL = 200
CHAINS = [
    "top_k(fraction=0.01)",
    "top_k(fraction=0.01, feedback=false)",
    "top_k(fraction=0.01, index=int64)",
    "top_k(fraction=0.1)",
    "quantize(bits=8)",
    "quantize(bits=4)",
    "quantize(bits=2)",
    "quantize(bits=16)",
    "top_k(fraction=0.01) | quantize(bits=8)",
    "error_feedback | quantize(bits=8)",
    "rand_k(fraction=0.01)",
    "rand_k(fraction=0.01, scale=false, feedback=true)",
    "low_rank(rank=3)",
    "low_rank(rank=3, warm_start=false, feedback=false)",
    "sign",
    "error_feedback | sign",
]


def best(repeats: int, work: Callable[[], object]) -> float:
    """Return the fewest core-seconds that the work took."""
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def measured(chain: str, values: int, repeats: int) -> tuple[float, float, float]:
    """Return megabytes per core-second of encoding and of decoding, and how many times shorter the message is."""
    side = int(values**0.5)  # a square matrix, and the rest as a bias
    shapes = torch.Size([side, side]), torch.Size([values - side * side])
    context = Context(0, 1, 0, Layout(("weight", "bias"), shapes, values), {})
    transforms = tuple(term.build() for term in bind_chain(chain))
    delta = torch.randn(values, generator=torch.Generator().manual_seed(0))
    update = Update.of(100.0, delta=delta)
    first = send(update, transforms, [{} for _ in transforms], context)

    def encode() -> Sent:
        return send(update, transforms, first.memories, context)

    message, megabytes = first.message, delta.nbytes / 1e6
    unpacking = best(repeats, message.unpack)
    sending = best(repeats, encode) - unpacking  # `send` also returns what arrives
    return megabytes / sending, megabytes / unpacking, delta.nbytes / message.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chains", nargs="*", default=CHAINS)
    parser.add_argument("--values", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'transforms':52} {'encode':>10} {'decode':>10} {'ratio':>7}")
    for chain in options.chains:
        encode, decode, ratio = measured(chain, options.values, options.repeats)
        mark = "" if min(encode, decode) >= GOAL else f"  below {GOAL} MB/s"
        print(f"{chain:52} {encode:5.0f} MB/s {decode:5.0f} MB/s {ratio:7.1f}{mark}")


if __name__ == "__main__":
    main()
