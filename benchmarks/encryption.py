"""Measure what encryption costs at the cut of a split network, and in histograms of boosted trees.

python benchmarks/encryption.py                 # OARF's recommendation cut, 128 rows per batch
python benchmarks/encryption.py --rows 1024 --repeats 5
python benchmarks/encryption.py --json > encryption.json

Cut of 16, concatenated: one party encrypts 16 numbers per row with the key of the label holder, who decrypts them. The
label holder encrypts the gradient of these numbers with the key of the party.
Cut of 256, summed: two parties encrypt 256 numbers per row, their sum is computed under encryption, and the label
holder decrypts it. It encrypts the gradient once for each party.
Layer: a party encrypts 16 numbers per row, another one multiplies them by the weights of a layer 16 -> 256 under
encryption and sends the results back, and the first one decrypts them. There is no backward pass.
Histogram: the label holder encrypts a gradient and a second derivative per row. A party adds them up by bin, for each
of its features, and sends the sums, 15 pairs in a ciphertext.

Times are core-seconds of the fastest of several repeats, all parties one after another on one core. Communicate: bytes
at 100 Mbit/s. Rates include it. Value by value, a few rows are measured and the time of a batch is estimated from them
(marked by ~). Hours per epoch are an estimate too: 7,834 batches, as OARF counts them.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

import numpy as np

from silobench.privacy.encryption.ckks import Ckks
from silobench.privacy.encryption.paillier import Paillier
from silobench.privacy.encryption.scheme import Ciphertexts, Meter, PublicKey, Scheme, SecretKey

MEGABITS = 100  # per second
OARF_RATE = 0.61  # samples per second (Hu et al., The OARF Benchmark Suite, Table 11)
OARF_BATCHES = 7834  # per epoch, of 128 rows
STEPS = ("encrypt", "add", "multiply", "decrypt", "serialise", "communicate")
FEW_ROWS = 4  # that are measured value by value


@dataclass
class Cost:
    """What one batch takes."""

    case: str
    scheme: str
    rows: int
    seconds: dict[str, float]  # by step
    nbytes: int
    error: float  # the largest one that was measured
    precision: float  # the largest one that is possible
    estimated: bool = False  # from fewer rows
    samples_per_second: float = field(init=False)

    def __post_init__(self) -> None:
        self.samples_per_second = self.rows / sum(self.seconds.values())


class Wire:
    """Keys with one meter, and the bytes that were sent."""

    def __init__(self, keys: Iterable[SecretKey]) -> None:
        self.meter, self.nbytes = Meter(time.process_time), 0
        for key in keys:
            key.public.encrypt([0.0])  # fills tables of the key
            key.public.meter = self.meter

    def send(self, array: Ciphertexts, receiver: PublicKey) -> Ciphertexts:
        """Return an array as it arrives."""
        message = array.to_bytes()
        self.nbytes += len(message)
        return receiver.read(message)

    def cost(self, case: str, scheme: str, rows: int, errors: tuple[float, float], scale: float = 1.0) -> Cost:
        """Return the cost of a batch that is `scale` times what was done."""
        seconds = {step: scale * self.meter.seconds.get(step, 0.0) for step in STEPS}
        nbytes = round(scale * self.nbytes)
        seconds["communicate"] = nbytes * 8 / (MEGABITS * 1e6)
        return Cost(case, scheme, rows, seconds, nbytes, *errors, estimated=scale != 1)


def cut(title: str, scheme: Scheme, keys: list[SecretKey], rows: int, width: int, parties: int) -> Cost:
    """Return the cost of activations to the label holder and gradients back; the first key is that of the holder."""
    measured = min(rows, FEW_ROWS) if scheme.values_per_ciphertext == 1 else rows
    rng, wire, holder = np.random.default_rng(0), Wire(keys), keys[0]
    activations = rng.normal(size=(parties, measured, width))
    gradient = rng.normal(size=(measured, width)) / rows
    first, *rest = (wire.send(holder.public.encrypt(part), holder.public) for part in activations)
    total = sum(rest, start=first)
    errors = [np.abs(holder.decrypt(total) - activations.sum(0)).max()]
    for party in keys[1 : parties + 1]:
        back = wire.send(party.public.encrypt(gradient), party.public)
        errors.append(np.abs(party.decrypt(back) - gradient).max())
    kind = "summed" if parties > 1 else "concatenated"
    bounds = (float(max(errors)), parties * scheme.precision)
    return wire.cost(f"cut of {width}, {kind}", title, rows, bounds, rows / measured)


def layer(rows: int, inputs: int = 16, outputs: int = 256) -> Cost:
    """Return the cost of a linear layer that is evaluated under encryption by CKKS."""
    rng, secret = np.random.default_rng(0), Ckks().generate()
    wire, public = Wire([secret]), secret.public
    units, weights = rng.normal(size=(rows, inputs)), rng.normal(size=(outputs, inputs)) / np.sqrt(inputs)
    result = wire.send(public.linear(weights, wire.send(public.encrypt_units(units), public)), public)
    error = np.abs(secret.decrypt(result) - weights @ units.T).max()
    precision = public.linear_precision(weights, float(np.abs(units).max()))
    return wire.cost(f"layer {inputs} -> {outputs}", "ckks", rows, (float(error), precision))


def histogram(rows: int, features: int = 14, bins: int = 32) -> Cost:
    """Return the cost of a histogram of gradients by Paillier."""
    rng, scheme = np.random.default_rng(0), Paillier(range=1.0, terms=2**20)
    secret = scheme.generate()
    wire, public = Wire([secret]), secret.public
    g, h, places = rng.uniform(-1, 1, rows), rng.uniform(0, 0.25, rows), rng.integers(0, bins, (rows, features))
    pairs = wire.send(public.encrypt_pairs(g, h), public)
    sums, _ = secret.decrypt_pairs(wire.send(public.gather(public.sum_by_bin(pairs, places, bins)), public))
    expected = np.stack([np.bincount(column, g, bins) for column in places.T])
    error = float(np.abs(sums - expected).max())
    return wire.cost(f"histogram {features} x {bins}", "paillier", rows, (error, rows * scheme.precision))


def fastest(measure: Callable[[], Cost], repeats: int) -> Cost:
    costs = [measure() for _ in range(repeats)]
    return min(costs, key=lambda cost: sum(cost.seconds.values()))


def costs_of(rows: int, repeats: int) -> Iterable[Cost]:
    """Measure all cases; wrong results end the benchmark."""
    schemes: dict[str, Scheme] = {
        "paillier, value by value": Paillier(pack=1),
        "paillier, 31 per ciphertext": Paillier(),
        "ckks, 4096 per ciphertext": Ckks(),
    }
    keys = {title: [scheme.generate() for _ in range(3)] for title, scheme in schemes.items()}
    for width, parties in ((16, 1), (256, 2)):
        for title, scheme in schemes.items():
            yield fastest(lambda: cut(title, scheme, keys[title], rows, width, parties), repeats)  # noqa: B023
    for batch in (rows, 4096):
        yield fastest(lambda: layer(batch), repeats)  # noqa: B023
    yield fastest(lambda: histogram(1000), repeats)


COLUMNS = ("batch, s", "samples/s", "x OARF", "h/epoch", "bytes", "error", "precision")


def line(cost: Cost) -> str:
    """Return a row of the table."""
    total, rate = sum(cost.seconds.values()), cost.samples_per_second
    hours = f"{total * OARF_BATCHES / 3600:.2f}" if cost.rows == 128 and cost.case.startswith("cut") else ""
    ends = (
        f"{'~' if cost.estimated else ''}{total:.3f}",
        f"{rate:,.1f}",
        f"{rate / OARF_RATE:,.0f}",
        hours,
        f"{cost.nbytes:,}",
        f"{cost.error:.1e}",
        f"{cost.precision:.1e}",
    )
    return layout(cost.case, cost.scheme, str(cost.rows), [f"{cost.seconds[step]:.4f}" for step in STEPS], ends)


def layout(case: str, scheme: str, rows: str, steps: Iterable[str], ends: Iterable[str]) -> str:
    return f"{case:24}{scheme:28}{rows:>5}" + "".join(f"{text:>12}" for text in (*steps, *ends))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=128, help="per batch")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if not options.json:
        print(layout("case", "scheme", "rows", STEPS, COLUMNS))
    costs = []
    for cost in costs_of(options.rows, options.repeats):
        if not cost.error <= cost.precision:
            raise SystemExit(f"{cost.case} by {cost.scheme}: the error {cost.error} is above {cost.precision}")
        costs.append(asdict(cost))
        if not options.json:
            print(line(cost), flush=True)
    if options.json:
        print(
            json.dumps(
                {"megabits_per_second": MEGABITS, "oarf_samples_per_second": OARF_RATE, "costs": costs}, indent=2
            )
        )


if __name__ == "__main__":
    main()
