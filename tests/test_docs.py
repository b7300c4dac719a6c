"""What the documents show is true: their code runs, and does what they say."""

import inspect
import re
from pathlib import Path

import pytest
import torch

import silobench as sb
from commands import TINY, call, run_code, write
from precision import bound
from silobench.cli.names import built_in
from silobench.data import DATASETS
from silobench.data.store.catalog import catalog
from silobench.method.algorithms import ALGORITHMS
from silobench.method.solvers import SOLVERS
from silobench.papers import FINDINGS
from silobench.runs.experiment import REGISTRIES
from silobench.runs.keys import VERTICAL_KEYS
from silobench.runs.plan import Cell
from silobench.training.state import State

ROOT = Path(__file__).parent.parent


def _code(document: str, number: int = 0) -> str:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)[number]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    return write(tmp_path / "fedavgm.py", _code("docs/algorithms.md"))


def test_an_algorithm_of_your_own_is_one_short_file(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(plugin.read_text().splitlines()) < 40
    result = call(capsys, "list", "algorithms", "--plugin", plugin)
    assert "fedavgm(beta=0.9)" in result.out
    experiment = write(plugin.parent / "e.toml", TINY)
    out, mine = plugin.parent / "runs", 'algorithm=["fedavg", "fedavgm(beta=0.5)"]'
    for workers in ("2", "1"):  # the second finds everything done
        options = ["--plugin", plugin, "--set", mine, "--workers", workers, "--out", out]
        result = call(capsys, "run", experiment, *options)
        assert result.code == 0, result.err
    assert "2 of 2 runs are already finished" in result.err
    assert "fedavgm(beta=0.5)" in result.out
    refused = call(capsys, "run", experiment, "--plugin", plugin, "--set", "algorithm=fedavgm(betta=1)")
    assert "did you mean beta?" in refused.err


def test_it_is_server_momentum(plugin: Path) -> None:
    exec(compile(plugin.read_text(), plugin, "exec"), {"__name__": "plugin"})
    data = sb.load("fcube")
    federation, method = sb.federate(data, "octants"), lambda name: sb.Method(ALGORITHMS.build(name), sb.sgd(epochs=1))

    def models(name: str) -> list[torch.Tensor]:
        run = sb.rounds(method(name), federation, sb.task("linear", data), rounds=3)
        return [record.state.server.params for record in run]

    for plain, still in zip(models("fedavg"), models("fedavgm(beta=0)"), strict=True):
        assert torch.equal(plain, still)
    before, velocity = sb.task("linear", data).initial, torch.zeros(8)
    for done, after in enumerate(models("fedavgm(beta=0.5)")):
        velocity = 0.5 * velocity + _fedavg_round(method("fedavg"), federation, data, before, done) - before
        # Both are differences of weights, and have their rounding.
        torch.testing.assert_close(after - before, velocity, rtol=0, atol=float(bound(10) * after.abs().max()))
        before = after


def _fedavg_round(
    method: sb.Method, federation: sb.Federation, data: sb.Dataset, params: torch.Tensor, done: int
) -> torch.Tensor:
    """Where one round of FedAvg leads from a model: what FedAvgM's mean delta must be measured by."""
    state = State(sb.Server(params, {}, {}, done, len(federation.parties), {}))
    run = sb.rounds(method, federation, sb.task("linear", data), rounds=done + 1, state=state)
    return next(run).state.server.params


def test_no_velocity_is_sent(plugin: Path) -> None:
    exec(compile(plugin.read_text(), plugin, "exec"), {"__name__": "plugin"})
    data = sb.load("fcube")
    federation = sb.federate(data, "octants")
    sizes = {}
    for name in ("fedavg", "fedavgm(beta=0.9)"):
        method = sb.Method(ALGORITHMS.build(name), sb.sgd(epochs=1))
        record = next(sb.rounds(method, federation, sb.task("linear", data), rounds=1))
        sizes[name] = (record.bytes_up, record.bytes_down)
    assert sizes["fedavg"] == sizes["fedavgm(beta=0.9)"]


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_readme_is_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.encode()) < 8000
    assert (ROOT / "docs/report.png").stat().st_size < 150_000


def test_the_citation_has_this_version() -> None:
    readme, citation = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CITATION.cff"))
    (block,) = _blocks(readme, "bibtex")
    assert f"version = {{{sb.__version__}}}" in block
    assert f"\nversion: {sb.__version__}\n" in citation
    (title,) = re.findall(r"title = \{(.+)\}", block)
    assert f'title: "{title}"' in citation


def test_the_readme_counts_right() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| algorithms | {len(built_in('algorithms'))} |" in readme
    assert f"or {len(catalog())} datasets with checksums" in readme
    comparison = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    assert f"judges {len(FINDINGS)} of their findings" in comparison
    assert f"silobench has {len(built_in('algorithms'))} including two baselines" in comparison


def test_the_specs_of_the_readme_are_right() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "csv(path=patients.csv, label=outcome, group=hospital)" in readme
    DATASETS.bind("csv(path=patients.csv, label=outcome, group=hospital)")
    for name in re.findall(r"sb\.(from_\w+)", readme):
        assert callable(getattr(sb, name))


def test_the_vertical_page_states_the_default_solver() -> None:
    page = (ROOT / "docs/vertical.md").read_text(encoding="utf-8")
    assert VERTICAL_KEYS.defaults["solver"] == "adam(epochs=1)"
    assert "Without the key `solver` it is `adam(epochs=1)`" in page
    passes = {dict(SOLVERS.bind(name).full.kwargs)["epochs"] for name in ("adam", "sgd")}
    assert passes == {10}
    assert "without `epochs` makes 10 passes" in page


def test_the_loop_by_hand_learns() -> None:
    printed = run_code((ROOT / "examples/fedavg_by_hand.py").read_text(encoding="utf-8"))
    assert float(printed.split()[-1]) > 0.8


def test_every_link_of_a_document_leads_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (document.parent / target).exists(), f"{document}: {target}"


def test_every_link_to_a_section_leads_to_a_heading() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for file, anchor in re.findall(r"\]\((?!https:)([^)#]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
            page = (document.parent / file if file else document).read_text(encoding="utf-8")
            assert anchor in _anchors(page), f"{document.name}: {file}#{anchor}"


def _anchors(page: str) -> set[str]:
    """Return the anchors of a page: those of its headings, as GitHub makes them, and those that it states."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    headings = [re.sub(r"[^\w\- ]", "", heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {heading.lower().replace(" ", "-") for heading in headings} | set(re.findall(r'<a id="(.+?)">', page))


def test_every_source_file_that_a_document_names_exists() -> None:
    for document in [*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        code = " ".join(re.findall(r"`([^`]+)`", text))
        for path in re.findall(r"[\w./-]+/[\w-]+\.py\b", code):
            is_there = any((base / path).is_file() for base in (ROOT, ROOT / "src/silobench"))
            assert is_there or re.search(r"NAME|FOLDER|ours2030", path), (
                f"{document.name} names {path}, which does not exist"
            )


def test_every_function_that_a_document_places_in_a_file_is_there() -> None:
    for document in ROOT.glob("docs/*.md"):
        places = re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", document.read_text(encoding="utf-8"))
        for name, path in places:
            file = next((base / path for base in (ROOT, ROOT / "src/silobench") if (base / path).is_file()), None)
            if file is None:  # a file of the reader's own
                continue
            last = name.split(".")[-1]
            definition = rf"^ *((def|class) {last}\b|{last}(: .*)? = )"
            is_there = re.search(definition, file.read_text(encoding="utf-8"), re.MULTILINE)
            assert is_there, f"{document.name} says that {name} is in {path}"


def _rows_of_keys() -> dict[str, str]:
    """Return the rows of the table of experiment keys, by key."""
    page = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    table = page[page.index("| key | meaning | default |") :].split("\n\n")[0]
    rows = [line.split(" | ", 1) for line in table.splitlines()[2:]]
    return {key: meaning for keys, meaning in rows for key in re.findall(r"`(\w+)`", keys)}


def test_the_page_of_experiments_lists_every_key() -> None:
    assert _rows_of_keys().keys() >= Cell.model_fields.keys()


@pytest.mark.parametrize(
    "kind", ["adversaries", "aggregates", "exchanges", "availabilities", "paces", "clocks", "objectives"]
)
def test_the_page_of_experiments_lists_the_choices_of_a_key(kind: str) -> None:
    registry = REGISTRIES[kind]
    row = _rows_of_keys()[registry.kind]
    specs = [spec for spec in re.findall(r"`([^`]+)`", row) if spec not in Cell.model_fields]
    names = {registry.bind(spec).full.name for spec in specs}  # an argument that does not exist is refused
    source = Path(inspect.getfile(inspect.unwrap(registry.factories[next(iter(names))]))).parent
    built_in = {n for n, f in registry.factories.items() if Path(inspect.getfile(inspect.unwrap(f))).parent == source}
    assert names == built_in


def test_every_algorithm_is_documented_and_public() -> None:
    built_in = (ROOT / "src/silobench/method/algorithms/__init__.py").read_text(encoding="utf-8")
    names = [name for name in ALGORITHMS.factories if f" as {name}\n" in built_in]  # other tests register plugins
    assert {"fedavg", "dgc", "combined"} <= set(names)
    page = (ROOT / "docs/algorithms.md").read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^\| [^|]*`{name}[`(]", page, re.MULTILINE), f"docs/algorithms.md has no row for {name}"
        assert name in sb.__all__


def test_public_names_are_sorted_and_load() -> None:
    assert sb.__all__ == sorted(sb.__all__)
    import silobench.loop.rounds  # noqa: F401  # importing the modules must not hide the functions of the same name

    for name in sb.__all__:
        assert getattr(sb, name) is not None
    assert callable(sb.rounds)
    assert callable(sb.partition)
