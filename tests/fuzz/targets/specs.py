"""The spec language: any text is a spec or is refused, and the text of a spec reads back as the same spec."""

import sys
from typing import Any

from hypothesis import strategies as st

from fuzz.target import Target
from silobench.runs.experiment import REGISTRIES
from silobench.spec.language import Operator, Spec, parse_terms
from silobench.tuning.ranges import range_of

_SEEDS = (
    b"fedprox(mu=0.01)", b"label-dirichlet(beta=.5) + noise(sigma=0.1)", b"|clip(norm=1) | quantize(bits=4)",
    b"#C=2", b"p~Dir(0.5)", b"q ~ Dir(0.5)", b"100Mbps", b"csv(path='a b.csv', label=\"x\")",
    b"f([1, 2, g(h=none)], -1e999, true)", b"module(path=a/b.py, name=Net)", b"link(bandwidth='1Gbps')",
    b"lambda_(x=1)", b"name('\\x00\\u1234')", b"f(--1, 'a\\'b', -0, 1_0, 0x10, 1j)",
)  # fmt: skip
_WORDS = (
    b"Dir(", b"Gau(", b"#C=", b"~", b" | ", b" + ", b"'", b'"', b"=", b"1e999", b"none", b"lambda", b"f'{x}'", b"f''",
    b"__import__('os')", b"\\N{DASH}", b"\\u0000", b"*", b"**", b":=", b"if", b"else", b"\n", b"\x0c", b"#",
)  # fmt: skip


def _read(data: bytes) -> None:
    operator: Operator = "|" if data[:1] == b"|" else "+"
    terms = parse_terms(data.removeprefix(b"|").decode("utf-8", "surrogateescape"), operator)
    text = f" {operator} ".join(map(str, terms))
    again = parse_terms(text, operator)
    if repr(again) != repr(terms):
        raise AssertionError(f"{text!r} reads as {again!r}, not as {terms!r}")


_NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
_PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)


def _specs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arguments = st.lists(values, max_size=3).map(tuple)
    named = st.dictionaries(_NAMES.map(lambda name: name.replace("-", "_").rstrip("_")), values, max_size=3)
    return st.builds(Spec, _NAMES, arguments, named.map(lambda pairs: tuple(pairs.items())))


def whole_specs() -> st.SearchStrategy[Spec]:
    """Return a strategy of specs with any names and arguments."""
    nested = st.recursive(_PLAIN, lambda inner: _specs(inner) | st.lists(inner, max_size=3).map(tuple), max_leaves=8)
    return _specs(nested)


def _texts() -> st.SearchStrategy[bytes]:
    return whole_specs().map(lambda spec: str(spec).encode("utf-8", "surrogatepass"))


_ORDER = sorted(REGISTRIES)
_BINDING = tuple(
    bytes([place]) + name.encode()
    for place, kind in enumerate(_ORDER)
    for name in sorted(REGISTRIES[kind].factories)[:6]
)
_ARGUMENTS = (
    b"(lr=0.1, epochs=2)", b"(0.5)", b"(beta=0.5)", b"(k=2)", b"(norm=1.0)", b"(bits=4)", b"(share=0.1)", b"(path=x)",
    b"(epsilon=1, delta=1e-5)", b"([1, 2])", b"(-1)", b"(1e999)", b"(none)", b"(true)", b"('x')", b"(fedavg())",
)  # fmt: skip


def _bind(data: bytes) -> None:
    registry = REGISTRIES[_ORDER[data[0] % len(_ORDER)]] if data else REGISTRIES["algorithms"]
    bound = registry.bind(data[1:].decode("utf-8", "replace"))
    again = registry.bind(str(bound.full))
    if again.full != bound.full or registry.bind(str(bound.short)).full != bound.full:
        raise AssertionError(f"{bound.full} and {bound.short} are bound as {again.full}")


def _bound_specs() -> st.SearchStrategy[bytes]:
    names = st.sampled_from([(place, name) for place, kind in enumerate(_ORDER) for name in REGISTRIES[kind].factories])
    return st.tuples(names, whole_specs()).map(
        lambda pair: (
            bytes([pair[0][0]]) + str(Spec(pair[0][1], pair[1].args, pair[1].kwargs)).encode("utf-8", "replace")
        )
    )


def _range(data: bytes) -> None:
    space = range_of("solver.lr", data.decode("utf-8", "replace"))
    if str(range_of("solver.lr", space.text())) != str(space):
        raise AssertionError(f"{space} reads back otherwise")
    if sys.getsizeof(space.values) > 10**6:
        raise AssertionError("the values of a range fill the memory")


TARGETS = (
    Target("spec", _read, lambda: _SEEDS, _texts, _WORDS, most_bytes=512),
    Target("spec-registry", _bind, lambda: _BINDING, _bound_specs, (*_ARGUMENTS, *_WORDS), most_bytes=256),
    Target(
        "tune-range",
        _range,
        lambda: (b"log(0.001, 1.0)", b"range(1, 10)", b"range(0.1, 0.9, step=0.1)", b"range(16, 128, step=16)"),
        words=(b"log(", b"range(", b"step=", b"1e-300", b"1e300", b"10000000000", b", ", b"-"),
        most_bytes=128,
    ),
)
