"""Compare silobench's accountants with those of Opacus, and measure them.

python benchmarks/accountants.py                  # install opacus beside silobench to compare

RDP is compared at integer orders, where the two packages have the same formula, and has to agree to 0.001; PLD is
compared with the PRV accountant of Opacus, to 0.02. Without Opacus only silobench's own numbers are printed.
"""

import time
import warnings
from collections.abc import Callable

from silobench.privacy.accountant import epsilon, epsilon_pld, noise_for
from silobench.privacy.mechanism import Mechanism

SETTINGS = [  # noise, rate, steps, delta
    (1.0, 0.01, 1000, 1e-5),
    (0.7, 0.05, 500, 1e-5),
    (2.0, 0.1, 200, 1e-6),
    (1.1, 256 / 60000, 14000, 1e-5),
    (4.0, 1.0, 50, 1e-5),
]
INTEGERS = tuple(float(order) for order in (*range(2, 64), 128, 256, 512))
RDP_AGREES, PLD_AGREES = 1e-3, 0.02


def timed(work: Callable[[], float | None]) -> tuple[float | None, float]:
    """Return a result and the core-seconds that it took."""
    began = time.process_time()
    return work(), time.process_time() - began


def opacus_rdp(noise: float, rate: float, steps: int, delta: float) -> float:
    from opacus.accountants.analysis import rdp

    curve = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=INTEGERS)
    return float(rdp.get_privacy_spent(orders=INTEGERS, rdp=curve, delta=delta)[0])


def opacus_prv(noise: float, rate: float, steps: int, delta: float) -> float:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(noise, rate, steps)]
    return float(accountant.get_epsilon(delta=delta))


def line(noise: float, rate: float, steps: int, delta: float, has_opacus: bool) -> bool:
    """Print a setting; return whether the packages agree."""
    entries = [(Mechanism("example", delta, noise, rate), steps)]
    every, seconds = timed(lambda: epsilon(entries, delta))
    integer = epsilon(entries, delta, INTEGERS)
    pld, pld_seconds = timed(lambda: epsilon_pld(entries, delta))
    text = f"{noise:5.2f} {rate:8.5f} {steps:6d} {delta:7.0e}  {every:9.4f} {seconds:6.3f}s {integer:9.4f}"
    text += f" {pld:9.4f} {pld_seconds:6.2f}s"
    if not has_opacus:
        print(text)
        return True
    theirs, prv = opacus_rdp(noise, rate, steps, delta), opacus_prv(noise, rate, steps, delta)
    assert pld is not None
    agrees = abs(integer - theirs) <= RDP_AGREES and abs(pld - prv) <= PLD_AGREES
    print(f"{text} {theirs:11.4f} {prv:11.4f}  {'agree' if agrees else 'DIFFER'}")
    return agrees


def main() -> None:
    warnings.simplefilter("ignore")  # Opacus warns about orders at the end of the list
    try:
        import opacus
    except ImportError:
        has_opacus = False
        print("opacus is not installed: only silobench's own numbers follow.")
    else:
        has_opacus = True
        print(f"opacus {opacus.__version__}")
    print("noise     rate  steps   delta   RDP       time    RDP at    PLD       time    Opacus RDP  Opacus PRV")
    print("                                all orders        integers                  at integers")
    agree = [line(*setting, has_opacus) for setting in SETTINGS]
    for target in (0.5, 2.0, 8.0):
        noise, seconds = timed(lambda target=target: noise_for(target, 1e-5, 0.01, 1000))
        print(f"noise for epsilon {target:g} over 1000 steps at rate 0.01: {noise:.4f}, {seconds:.3f} core-seconds")
    if not all(agree):
        raise SystemExit("the accountants differ by more than they may.")


if __name__ == "__main__":
    main()
