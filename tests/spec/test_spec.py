"""The spec language: what is written is what is bound, and nothing is ever evaluated."""

import contextlib
import inspect
import itertools
import warnings
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from silobench.data import DATASETS
from silobench.engines import ENGINES
from silobench.errors import SpecError
from silobench.loop.network import NETWORKS
from silobench.method.algorithms import ALGORITHMS
from silobench.method.controllers import CONTROLLERS
from silobench.method.schedules import SCHEDULES
from silobench.method.servers import SERVERS
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import TRANSFORMS
from silobench.method.types import Server
from silobench.models import MODELS
from silobench.partitions import PARTITIONS, label_count, noise
from silobench.spec import Registry, Spec, parse, parse_terms

REGISTRIES: list[Registry[Any]] = [
    *(ALGORITHMS, CONTROLLERS, DATASETS, ENGINES, MODELS, NETWORKS),
    *(PARTITIONS, SCHEDULES, SERVERS, SOLVERS, TRANSFORMS),
]
FACTORIES = [pytest.param(r, name, id=f"{r.kind}-{name}") for r in REGISTRIES for name in r.factories]


def refusal(call: Any, *args: Any) -> str:
    with pytest.raises(SpecError) as caught:
        call(*args)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


# --- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("f", (), {}),
        ("f()", (), {}),
        ("  F ( 1 ,\n a = .5 ) ", (1,), {"a": 0.5}),
        ("f(-1, 1e-3, 1E+3, -2.5e10, 7., 007)", (-1, 1e-3, 1e3, -2.5e10, 7.0, 7), {}),
        ("f(true, False, NONE, yes)", (True, False, None, "yes"), {}),
        ("f('true', \"1\", '', 'a, b) + c')", ("true", "1", "", "a, b) + c"), {}),
        (r"f('it\'s', 'a\nb', '\u00e9')", ("it's", "a\nb", "é"), {}),
        ("f([1, a, [2]], [], (3, 4))", ((1, "a", (2,)), (), (3, 4)), {}),
        ("f(a-b, /tmp/x_1.csv, ~/d, 3-4, 10%, 1_000)", ("a-b", "/tmp/x_1.csv", "~/d", "3-4", "10%", "1_000"), {}),
        ("f(as=std, lambda=1, min-size=2)", (), {"as": "std", "lambda": 1, "min_size": 2}),
        ("f(g(1), h=g(x=i()))", (Spec("g", (1,)),), {"h": Spec("g", (), (("x", Spec("i")),))}),
    ],
)
def test_a_spec_reads_as_the_call_it_looks_like(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    spec = parse(text)
    assert spec == Spec("f", args, tuple(kwargs.items()))
    assert [type(v) for v in spec.args] == [type(v) for v in args]


@pytest.mark.parametrize(
    ("paper", "ours"),
    [
        ("Dir(0.5)", "label-dirichlet(0.5)"),
        ("p~Dir(0.5)", "label-dirichlet(0.5)"),
        ("p_k ∼ Dir(0.5)", "label-dirichlet(0.5)"),
        ("#C=2", "label-count(k=2)"),
        ("# C = 12", "label-count(k=12)"),
        ("q~Dir(0.5)", "quantity-dirichlet(0.5)"),
        (" q ~ Dir(0.5, min_size=3)", "quantity-dirichlet(0.5, min_size=3)"),
        ("Gau(0.1)", "noise(0.1)"),
        ("x ~ Gau(0.1)", "noise(0.1)"),
        ("IID", "iid"),
        ("100Mbps", "link(bandwidth=100Mbps)"),
        ("1.5 Gbps", "link(bandwidth='1.5 Gbps')"),
        ("Label_Dirichlet(0.5)", "label-dirichlet(0.5)"),
        ("Dir(0.5)+ Gau(0.1)", "label-dirichlet(0.5) + noise(0.1)"),
        ("q~Dir(0.5) +#C=2", "quantity-dirichlet(0.5) + label-count(k=2)"),
    ],
)
def test_the_papers_notation_means_the_same(paper: str, ours: str) -> None:
    assert parse_terms(paper, "+") == parse_terms(ours, "+")


def test_a_plain_bandwidth_is_a_network() -> None:
    assert NETWORKS.build("100Mbps").bits_per_second == 1e8
    assert NETWORKS.build("1.5 Gbps").bits_per_second == 1.5e9


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#C=abc", "is not a spec: #C needs a whole number"),
        ("#C=2.5", "is not a spec: #C needs a whole number"),
        ("# C = -1", "is not a spec: #C needs a whole number"),
        ("iid + #C=2x", "is not a spec: #C needs a whole number"),
        ("Dir(0.5", "is not a spec: write"),
        ("Dir(0.5 0.3)", "has two words side by side"),
        ("Gau(0.1) 5", "is not a spec: write"),
        ("Dir(0.5).5", "is not a spec: write"),
    ],
)
def test_messages_show_the_notation_that_was_written(text: str, problem: str) -> None:
    assert refusal(parse_terms, text, "+").startswith(f"'{text}' {problem}")


@pytest.mark.parametrize(("text", "operator"), [("a + b(1) + c", "+"), ("a | b(1)|c", "|")])
def test_terms_keep_their_order(text: str, operator: Any) -> None:
    assert parse_terms(text, operator) == (Spec("a"), Spec("b", (1,)), Spec("c"))


@pytest.mark.parametrize("text", ["a + b", "a | b", "a | b + c"])
def test_one_spec_is_not_a_sum_or_a_chain(text: str) -> None:
    refusal(parse, text)


@pytest.mark.parametrize("text", ["a | b", "a + b | c"])
def test_a_sum_is_not_a_chain(text: str) -> None:
    refusal(parse_terms, text, "+")


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "()", "[]", "1", "'a'", "a b", "f(", "f)", "f(]", "f(1", "f(1))", "f('a)", "f(,)", "f(a=)"),
        *("f(=1)", "f(a=1, 2)", "f(a=1, a=2)", "f(as=1, as_=2)", "f(1)(2)", "f[0]", "f(1 2)", "f(1 + 2)", "+a", "a +"),
        *("a = 1", "True", "a.b", "a;b", "3f", "f(a='b'c)", "f(a:=1)", "f(True=1)", "_", "-", "f(_=1)"),
    ],
)
def test_what_is_no_spec_is_refused(text: str) -> None:
    refusal(parse, text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "__import__('os').system('true')",
        "().__class__",
        "os.system('true')",
        "iid.__class__",
        "iid().cut",
        "lambda: 1",
        "(lambda: iid)()",
        "f'{1}'",
        "like(reference=f'{1}')",
        "like(reference=b'x')",
        "like(reference=lambda: 1)",
        "like(reference=lambda x: x)",
        "like(reference=open('/etc/passwd'))",
        "like(reference=os.getcwd())",
        "like(reference=[x for x in y])",
        "like(reference=a if b else c)",
        "like(reference='a'.upper())",
        "like(reference='a' 'b')",
        "label-count(k=1 + 1)",
        "label-count(k=2**3)",
        "label-count(*[2])",
    ],
)
def test_nothing_is_evaluated(text: str) -> None:
    refusal(PARTITIONS.build, text)


def test_words_are_never_glued_together() -> None:
    refusal(parse, "csv(path=my file.csv, label=y)")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("f('\ud800')", id="surrogate"),
        pytest.param("f('\x00')", id="null byte"),
        pytest.param("f(" + "9" * 5000 + ")", id="5000 digits"),
        pytest.param("+".join(["a"] * 5000), id="5000 terms"),
        pytest.param("f(" + "+".join("1" * 5000) + ")", id="5000 numbers"),
        pytest.param("f(" * 500 + ")" * 500, id="500 nested"),
        pytest.param("[" * 5000, id="5000 brackets"),
    ],
)
def test_hostile_text_raises_no_other_exception(text: str) -> None:
    with contextlib.suppress(SpecError):
        parse_terms(text, "+")


@pytest.mark.parametrize("text", ["1" * 300_000 + "x", "a(" + "1," * 100_000, "a(b=" + "1,=" * 100_000])
def test_long_hostile_text_is_read_once(text: str) -> None:
    """Reading it once for each of its places would take hours."""
    with pytest.raises(SpecError):
        parse(text)


@pytest.mark.parametrize("text", [r"csv(path='C:\data', label=y)", r"f('\d')"])
def test_reading_never_warns(text: str) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with contextlib.suppress(SpecError):
            parse(text)
    assert seen == []


PIECES = [*"fgx()[]=,+|'\"\\-._~#:01e \n\t", *("f(", "as", "true", "None", "Dir(", "#C=2", "é", "²", "λ")]
GRAMMAR = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | GRAMMAR)
@example("_")
@example("_0")
@example("f(_=1)")
@example("f(g())")
def test_any_text_is_refused_or_prints_as_itself(text: str) -> None:
    try:
        spec = parse(text)
    except SpecError:
        return
    assert repr(parse(str(spec))) == repr(spec)


# --- printing ----------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,4}){0,2}", fullmatch=True) | st.sampled_from(
    ["if", "as", "lambda", "true", "none", "label-dirichlet", "q", "p"]
)
KEYS = st.from_regex(r"[a-zA-Z][a-z0-9]{0,4}(_[a-z0-9]{1,4})?", fullmatch=True) | st.sampled_from(["as", "class", "in"])
TRICKY = [
    *(
        "+ Dir(0.5)",
        "|#C=2",
        "a + 100Mbps",
        "x+Gau(1)",
        "#C=2",
        "Dir(0.5)",
        "True",
        "none",
        "1",
        "-1.5e3",
        "1e999",
        "nan",
    ),
    *("", "it's", '"', "\\", "a\\'b", "a\nb", "C:\\data\\x.csv", "/a b/é.csv", "\ud800", "\x00", "-", "="),
]
TEXTS = st.text(max_size=12) | st.sampled_from(TRICKY)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS


def _specs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
    few = st.lists(values, max_size=3).map(tuple)
    pairs = st.dictionaries(KEYS.filter(lambda k: k not in ("True", "False", "None")), values, max_size=3)
    return st.builds(Spec, NAMES, few, pairs.map(lambda d: tuple(d.items())))


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple) | _specs(inner), max_leaves=6)


@settings(max_examples=120, deadline=None)
@given(_specs(VALUES))
@example(Spec("f", (Spec("g"),)))
@example(Spec("f", ("+ Dir(0.5)",)))
def test_a_printed_spec_reads_back_as_itself(spec: Spec) -> None:
    again = parse(str(spec))
    assert again == spec
    assert repr(again) == repr(spec)  # 1, 1.0 and True are equal but not the same


def test_specs_print_as_people_write_them() -> None:
    assert str(parse("F( 1,b = [1 , 'x y'],c='abc',d=NONE)")) == "f(1, b=[1, 'x y'], c=abc, d=None)"


# --- binding -----------------------------------------------------------------------------------------

CANDIDATES = [1, 2, 0.5, 0.25, True, None, "x", "a b", "100Mbps", "full", (3, 5), ("a", "it's"), "fedavg"]


def _accepted(registry: Registry[Any], name: str) -> list[Spec]:
    """Specs of a factory: its required arguments alone, then each other value of each argument."""
    factory = registry.factories[name]
    hints, found = get_type_hints(factory), []
    parameters = inspect.signature(factory).parameters.values()
    many = [p.name for p in parameters if p.kind == p.VAR_POSITIONAL]
    keyed = [p for p in parameters if p.name not in many]
    required = [p.name for p in keyed if p.default is p.empty]

    def bindable(spec: Spec) -> bool:
        try:
            registry.bind(spec)
        except SpecError:
            return False
        return True

    def spec_of(arguments: dict[str, Any], args: tuple[Any, ...] = ()) -> Spec:
        return Spec(name, args, tuple((key.rstrip("_"), value) for key, value in arguments.items()))

    options = itertools.product(CANDIDATES, repeat=len(required))
    first = next(o for values in options if bindable(spec_of(o := dict(zip(required, values, strict=True)))))
    found.append(spec_of(first))
    for parameter in keyed:
        literals = [v for v in get_args(hints[parameter.name]) if isinstance(v, str | int)]
        found += [spec_of(first | {parameter.name: value}) for value in (*CANDIDATES, *literals)]
    if many:
        found.append(spec_of(first, (3, 4)))
    return [spec for spec in found if bindable(spec)]


@pytest.mark.parametrize(("registry", "name"), FACTORIES)
def test_full_and_short_forms_of_every_factory_bind_to_the_same(registry: Registry[Any], name: str) -> None:
    for spec in _accepted(registry, name):
        bound = registry.bind(spec)
        full, short = registry.bind(str(bound.full)), registry.bind(str(bound.short))
        assert full.full == short.full == bound.full
        assert full.short == short.short == bound.short
        assert len(bound.short.kwargs) <= len(bound.full.kwargs)


@pytest.mark.parametrize(("registry", "name"), FACTORIES)
def test_the_full_form_states_every_argument(registry: Registry[Any], name: str) -> None:
    parameters = inspect.signature(registry.factories[name]).parameters.values()
    stated = [p.name for p in parameters if p.kind != p.VAR_POSITIONAL and p.name not in registry.added_later[name]]
    expected = [parameter.rstrip("_") for parameter in stated]
    assert [key for key, _ in registry.bind(_accepted(registry, name)[0]).full.kwargs] == expected


@pytest.mark.parametrize(
    ("registry", "text", "full", "short"),
    [
        (
            PARTITIONS,
            "Dir(1)",
            "label-dirichlet(beta=1.0, balance=True, min_size=10)",
            "label-dirichlet(beta=1.0)",
        ),
        (PARTITIONS, "noise(0.1, as=std)", "noise(sigma=0.1, as=std, test=clean)", "noise(sigma=0.1, as=std)"),
        (PARTITIONS, "by_group(level=sub-continent)", "by-group(level=sub-continent)", "by-group(level=sub-continent)"),
        (PARTITIONS, "by-group(level='')", "by-group(level='')", "by-group"),
        (MODELS, "mlp(32, 16, init=torch)", "mlp(32, 16, init=torch)", "mlp(32, 16, init=torch)"),
        (MODELS, "mlp", "mlp(init=normal)", "mlp"),
        (
            SCHEDULES,
            "step(0.1, at=[64, 96])",
            "step(start=0.1, at=[64, 96], factor=0.1)",
            "step(start=0.1, at=[64, 96])",
        ),
    ],
)
def test_bound_forms(registry: Registry[Any], text: str, full: str, short: str) -> None:
    bound = registry.bind(text)
    assert (str(bound.full), str(bound.short)) == (full, short)


def test_specs_nest() -> None:
    bound = SOLVERS.bind("sgd(lr=exponential(0.1, decay=0.99), epochs=1)")
    assert str(bound.short) == "sgd(lr=exponential(start=0.1, decay=0.99), epochs=1)"
    assert SOLVERS.bind(str(bound.short)).full == SOLVERS.bind(str(bound.full)).full == bound.full
    rate = bound.build().lr
    assert callable(rate)
    assert rate(Server(None, {}, {}, 2, 1, {})) == pytest.approx(0.1 * 0.99**2)  # type: ignore[arg-type]


def test_nested_specs_are_short_in_the_short_form_and_full_in_the_full() -> None:
    bound = SOLVERS.bind("sgd(lr=step(0.1, at=[5]))")
    assert str(bound.short) == "sgd(lr=step(start=0.1, at=[5]))"
    assert dict(bound.full.kwargs)["lr"] == parse("step(start=0.1, at=[5], factor=0.1)")


def test_a_spec_calls_the_factory_it_names() -> None:
    seen: Registry[Any] = Registry("thing")

    @seen.register
    def thing(a: int, *more: int, as_: str = "x") -> tuple[Any, ...]:
        return a, more, as_

    assert seen.build("Thing(1, 2, 3, as=y)") == (1, (2, 3), "y") == thing(1, 2, 3, as_="y")
    assert seen.describe() == [{"name": "thing", "signature": "thing(a, more, ..., as=x)", "summary": ""}]


@pytest.mark.parametrize(
    ("registry", "text", "message"),
    [
        (ALGORITHMS, "fedprx", "did you mean fedprox?"),
        (PARTITIONS, "label-dirichlt(0.5)", "did you mean label-dirichlet"),
        (PARTITIONS, "zzz", "choose from by-group, "),
        (PARTITIONS, "label-dirichlet(bata=0.5)", "did you mean beta?"),
        (PARTITIONS, "label-count(K=2)", "did you mean k?"),
        (PARTITIONS, "noise(0.1, a=std)", "did you mean as?"),
        (PARTITIONS, "noise(0.1, as_=std, foo=1)", "choose from as, sigma, test."),
        (PARTITIONS, "iid(k=1)", "it takes no arguments."),
        (PARTITIONS, "iid(1)", "write iid()."),
        (PARTITIONS, "label-count", "write label-count(k)."),
        (PARTITIONS, "label-count(2, k=2)", "multiple values for argument 'k'"),
        (PARTITIONS, "label-count(k=iid())", "arguments of a partition cannot be specs"),
        (SOLVERS, "sgd(lr=exponental(0.1, 0.9))", "did you mean exponential?"),
        (SOLVERS, "sgd(lr=exponential(0.1, deca=0.9))", "did you mean decay?"),
        (MODELS, "mlp(3, widths=4)", "mlp has no argument 'widths'"),
    ],
)
def test_unknown_names_and_arguments_suggest_the_nearest(registry: Registry[Any], text: str, message: str) -> None:
    assert message in refusal(registry.bind, text)


@pytest.mark.parametrize(
    ("registry", "text", "message"),
    [
        (PARTITIONS, "label-count(k=0)", "label-count: k must be greater than or equal to 1, but 0 was given."),
        (PARTITIONS, "label-count(k=2.5)", "k must be a whole number, but 2.5"),
        (PARTITIONS, "label-count(k='2')", "k must be a whole number, but '2'"),
        (PARTITIONS, "label-count(k=true)", "k must be a whole number, but true"),
        (PARTITIONS, "label-count(k=[2])", "k must be a whole number, but [2]"),
        (PARTITIONS, "Dir(0)", "beta must be greater than 0, but 0"),
        (PARTITIONS, "Dir(1e999)", "beta must be a finite number, but inf"),
        (PARTITIONS, "Dir(none)", "beta must be a number, but None"),
        (PARTITIONS, "Dir(0.5, balance=1)", "balance must be true or false, but 1"),
        (PARTITIONS, "label-percent(101)", "percent must be less than or equal to 100, but 101"),
        (PARTITIONS, "noise(0.1, as=sdt)", "as must be 'variance' or 'std', but 'sdt'"),
        (ALGORITHMS, "fedprox(mu=-0.1)", "mu must be greater than or equal to 0, but -0.1"),
        (SCHEDULES, "step(0.1, at=3)", "at must be a list, but 3 was given."),
        (ALGORITHMS, "scaffold(option=3)", "option must be 1 or 2, but 3"),
        (SOLVERS, "sgd(momentum=1)", "momentum must be less than 1, but 1"),
        (SOLVERS, "sgd(lr=fast)", "lr must be a number, but 'fast'"),
        (SCHEDULES, "step(0.1, at=[1, x])", "at must be"),
        (MODELS, "mlp(32, 0)", "widths must be greater than or equal to 1, but 0"),
        (NETWORKS, "link(latency=-1)", "latency must be greater than or equal to 0, but -1"),
        (DATASETS, "csv(path=x, label=y, test=1)", "test must be less than 1, but 1"),
    ],
)
def test_wrong_types_and_ranges_are_refused_in_one_sentence(registry: Registry[Any], text: str, message: str) -> None:
    assert message in refusal(registry.bind, text)


def test_a_schedule_where_a_number_is_needed_is_named_as_it_was_written() -> None:
    assert " at 0x" not in refusal(SOLVERS.bind, "sgd(momentum=exponential(0.1, 0.9))")


@pytest.mark.parametrize("text", ["0Mbps", "link(bandwidth=fast)", "link(bandwidth=100)"])
def test_a_bandwidth_must_read_like_one(text: str) -> None:
    assert "bandwidth must" in refusal(NETWORKS.build, text)


@pytest.mark.parametrize("call", [lambda: label_count(0), lambda: label_count(2.0), lambda: noise(0.1, as_="sdt")])
def test_python_calls_are_checked_as_specs_are(call: Any) -> None:
    assert " must be " in refusal(call)
