"""``silobench advise``: measure the skew between parties, and recommend a method with its evidence."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.groups import FirstByDefault
from silobench.cli.options import DataDir, Device, Json, LoadedPlugins, Out
from silobench.cli.output import print
from silobench.errors import ConfigError

if TYPE_CHECKING:
    from silobench.advice.answer import Answer
    from silobench.advice.evidence import Traits
    from silobench.advice.next_step import Subject
    from silobench.advice.profile import Profile
    from silobench.advice.sources import BinnedRows
    from silobench.runs.stored import StoredRun

_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


app = typer.Typer(
    name="advise",
    cls=FirstByDefault,
    help="Measure the skew between parties and recommend a method: `advise FILE.csv --label COL --party COL`, or "
    "`advise DATASET --partition SPEC`. Parties that must not show their counts write private profiles, and one of "
    "them joins these. `silobench advise measure --help` has the options of the first two forms.",
    no_args_is_help=True,
)

Evidence = Annotated[
    Path | None,
    typer.Option(help="Directory or file of stored runs to learn from. Default: those that come with silobench."),
]
Tree = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw the decision tree to a .svg, .png, .pdf or .txt file; - prints it."),
]
Participation = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of the parties that will take part in a round.")
]
Next = Annotated[Path | None, typer.Option("--next", help="Write the proposed experiment to this TOML file.")]
Try = Annotated[bool, typer.Option("--try", help="Run the proposed experiment, and show what it says.")]
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", help="Strength of the protection: smaller is stronger, and 1 is common.")
]
SchemaFile = Annotated[Path | None, typer.Option("--schema", help="File of `advise schema`: the bins of all columns.")]


@app.command("measure")
def measure(
    data: Annotated[str, typer.Argument(metavar="FILE.csv|DATASET", help="A table, or a dataset spec such as digits.")],
    label: Annotated[str | None, typer.Option(help="Column of the table that is to be predicted.")] = None,
    party: Annotated[str | None, typer.Option(help="Column of the table that says which party has a row.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column that is not a feature. Repeatable.")] = None,
    partition: Annotated[
        str | None, typer.Option(help='Partition spec that divides the rows, such as "label-dirichlet(beta=0.5)".')
    ] = None,
    parties: Annotated[int | None, typer.Option(min=2, help="Number of parties of --partition.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --partition.")] = 0,
    participation: Participation = 1.0,
    private: Annotated[
        float | None,
        typer.Option(metavar="EPSILON", help="Profile each party with differentially private histograms only."),
    ] = None,
    schema: SchemaFile = None, evidence: Evidence = None, tree: Tree = None, next_: Next = None, try_: Try = False,
    device: Device = None, out: Out = Path("runs/advise"), json_: Json = False, plugin: LoadedPlugins = None,
    data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Measure the skew of a table with a column of parties, or of a partitioned dataset, and recommend a method."""
    output = _Output(participation, evidence, tree, next_, try_, out, json_, device)
    if private is not None:
        _check_private(private, schema, party)
    if party is not None:
        if partition is not None:
            raise ConfigError("--party and --partition both say where rows are: give one of them.")
        (rows, subject), traits = _table(Path(data), label, party, tuple(drop or ()), schema), None
    else:
        rows, subject, traits = _partitioned(data, label, tuple(drop or ()), partition, parties, seed)
    output.show(_profiles(rows, private), subject, rows.notes, traits)


@app.command()
def schema(
    label: Annotated[
        str, typer.Option(help="The label with its classes, as in outcome=yes,no; or a range of numbers.")
    ],
    feature: Annotated[
        list[str] | None,
        typer.Option(help="A column with its range or categories, as in age=0:100 or sex=f,m. Repeatable."),
    ] = None,
    bins: Annotated[int, typer.Option(min=2, max=20, help="Number of equal parts that a range is cut into.")] = 4,
    output: Annotated[Path, typer.Option("--output", "--out", help="File for the schema.")] = Path("schema.json"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write the bins that all parties count in. They are stated here, and never follow from private rows."""
    from silobench.advice.schema import stated_schema

    agreed = stated_schema(label, feature or [], bins)
    if output.is_file() and not force:
        raise ConfigError(f"{output} exists already: name another file with --out, or replace it with --force.")
    agreed.write(output)
    cells = len(agreed.label) * (1 + sum(map(len, agreed.features)))
    print(f"wrote {output}: {len(agreed.features)} features, {cells} counts per party, schema {agreed.digest}")


@app.command()
def profile(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Table with the rows of one party.")],
    schema_: Annotated[Path, typer.Option("--schema", help="File of `advise schema` that all parties use.")],
    party: Annotated[str | None, typer.Option(help="Name of the party. Default: the name of the file.")] = None,
    epsilon: Epsilon = None,
    exact: Annotated[bool, typer.Option("--exact", help="Write exact counts, which protect nobody.")] = False,
    output: Annotated[Path, typer.Option("--output", "--out", help="File for the profile.")] = Path("profile.json"),
) -> None:
    """Write the profile of one party: counts with noise that hides every single row."""
    from silobench.advice.profile import check_epsilon
    from silobench.advice.schema import Schema
    from silobench.advice.sources import party_profile

    if (epsilon is None) != exact:
        raise ConfigError("say how the counts are protected: give --epsilon 1 for noise, or --exact for exact counts.")
    if epsilon is not None:
        check_epsilon(epsilon)
    with waiting("counting the rows"):
        counted = party_profile(file, party or file.stem, Schema.read(schema_))
        chosen = counted if epsilon is None else _noisy([counted], epsilon)[0]
    chosen.write(output)
    if epsilon is None:
        print(f"wrote {output}: exact counts of {chosen.party}; whoever has this file has them")
    else:
        print(f"wrote {output}: counts of {chosen.party} with noise, {epsilon:g}-differentially private for each row")


@app.command("combine")
def combine_(
    profiles: Annotated[list[Path], typer.Argument(metavar="PROFILE.json...", help="One profile per party.")],
    participation: Participation = 1.0, evidence: Evidence = None, tree: Tree = None, next_: Next = None,
    try_: Try = False, device: Device = None, out: Out = Path("runs/advise"), json_: Json = False,
) -> None:  # fmt: skip
    """Join the profiles of all parties, and recommend a method."""
    from silobench.advice.profile import read_profile

    output = _Output(participation, evidence, tree, next_, try_, out, json_, device)
    with waiting("reading the profiles"):
        read = [read_profile(path) for path in profiles]
    output.show(read)


# --- what is measured ---------------------------------------------------------------------------------


def _check_private(epsilon: float, schema: Path | None, party: str | None) -> None:
    from silobench.advice.profile import check_epsilon

    check_epsilon(epsilon)
    if party is None:
        raise ConfigError("--private is about the parties of a table: name their column with --party.")
    if schema is None:
        raise ConfigError(
            "--private needs bins that do not follow from the rows: state ranges and categories with `silobench advise "
            "schema`, and give the file with --schema."
        )


def _table(
    path: Path, label: str | None, party: str, drop: tuple[str, ...], schema: Path | None
) -> "tuple[BinnedRows, Subject]":
    from silobench.advice.next_step import Subject
    from silobench.advice.schema import Schema
    from silobench.advice.sources import table_rows, table_spec

    if label is None:
        raise ConfigError("which column is to be predicted? Name it with --label.")
    with waiting(f"reading {path}"):
        rows = table_rows(path, label, party, drop, Schema.read(schema) if schema else None)
    dropped = (*drop, *rows.not_compared)  # the experiment must not learn from identifiers and free texts
    return rows, Subject(table_spec(str(path), label, dropped, party, rows.dates), "by-group", len(rows.parties))


def _partitioned(
    data: str, label: str | None, drop: tuple[str, ...], partition: str | None, parties: int | None, seed: int
) -> "tuple[BinnedRows, Subject, Traits]":
    from silobench.advice.evidence import Traits, effective_classes
    from silobench.advice.next_step import Subject
    from silobench.advice.sources import federation_rows, table_spec
    from silobench.data import load
    from silobench.federation import federate
    from silobench.partitions import deals_columns, measure

    is_table = Path(data).suffix.lower() in _TABLES
    if partition is None:
        other = "name the column of parties with --party" if is_table else "give the spec of a partition"
        raise ConfigError(f"where are the rows of {data}? {other.capitalize()}, or divide them with --partition iid.")
    if is_table and label is None:
        raise ConfigError("which column is to be predicted? Name it with --label.")
    if not is_table and (label is not None or drop):
        option = "--drop" if label is None else "--label"
        raise ConfigError(f"{option} names a column of a table, but {data} is a dataset: leave {option} out.")
    if deals_columns(partition):
        raise ConfigError(
            f"{partition} divides columns, but advice is about parties with rows: give another partition."
        )
    spec = table_spec(data, str(label), drop) if is_table else data
    with waiting("reading and partitioning the dataset"):
        federation = federate(load(spec), partition, parties, seed)
        rows = federation_rows(federation)
        skew = measure(federation.partition, federation.dataset)
    held = effective_classes(skew.counts)
    traits = Traits(skew.emd_weighted, skew.gini, skew.feature_shift, held, float(len(rows.parties)), 1.0)
    return rows, Subject(spec, partition, len(rows.parties)), traits


def _profiles(rows: "BinnedRows", epsilon: float | None) -> "list[Profile]":
    with waiting("counting the rows of each party"):
        exact = rows.profiles()
        return exact if epsilon is None else _noisy(exact, epsilon)


def _noisy(profiles: "list[Profile]", epsilon: float) -> "list[Profile]":
    """Return profiles with noise that nobody can repeat."""
    from silobench.privacy.randomness import Randomness

    randomness = Randomness.secret()
    return [profile.privatised(epsilon, randomness) for profile in profiles]


# --- what is answered ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Output:
    """What a command was asked to answer with."""

    participation: float
    evidence: Path | None
    tree: str | None
    next: Path | None
    is_tried: bool
    out: Path
    is_json: bool
    device: str | None

    def __post_init__(self) -> None:
        if self.device and not self.is_tried:
            raise ConfigError("--device says where the runs of --try are trained: give --try too, or leave it out.")
        if self.device:
            from silobench.models.devices import resolved

            resolved(self.device)
        if not self.participation > 0:
            raise ConfigError("--participation is 0, but some parties must take part in a round: give a share above 0.")
        if self.is_tried and self.is_json:
            raise ConfigError(
                "--try prints tables of the runs, and --json prints facts and nothing else: give one of them."
            )
        if self.tree == "-" and self.is_json:
            raise ConfigError("--json has the tree as text under `tree`: leave out --tree -.")
        if self.tree and self.tree != "-":
            from silobench.advice.tree_drawing import check_format

            check_format(Path(self.tree))

    def show(
        self,
        profiles: "list[Profile]",
        subject: "Subject | None" = None,
        notes: tuple[str, ...] = (),
        traits: "Traits | None" = None,
    ) -> None:
        """Print the answer about some parties, write what was asked for, and try it."""
        from silobench.advice.answer import answer
        from silobench.advice.profile import combine

        joined = combine(profiles)
        runs, source = _evidence(self.evidence)
        with waiting("testing for skew, and learning from stored runs"):
            result = answer(joined, runs, source, subject, self.participation, notes, traits)
        self._write(result)
        if self.is_json:
            print(json.dumps(result.as_json()))
            return
        from silobench.cli.advise_page import print_answer, print_tree

        print_answer(result, str(self.next) if self.next else "")
        if self.tree == "-":
            print_tree(result)
        elif self.tree:
            print(f"wrote {self.tree}")
        if self.is_tried:
            _try(result, self.out, self.device)

    def _write(self, result: "Answer") -> None:
        """Write the experiment and the drawing, where these were asked for."""
        if self.next:
            _write_experiment(self.next, result.toml)
        if self.tree and self.tree != "-":
            from silobench.advice.tree_drawing import draw_tree

            draw_tree(result.recommendation.tree, Path(self.tree), f"Which algorithm? ({result.recommendation.basis})")


def _write_experiment(path: Path, text: str) -> None:
    """Write a proposed experiment; refuse to replace a file that differs from it, which somebody may have written."""
    if path.is_file() and path.read_bytes() != text.encode():
        raise ConfigError(f"--next {path} exists and is another experiment: move it away, or give another path.")
    path.write_text(text, encoding="utf-8")


def _evidence(directory: Path | None) -> "tuple[list[StoredRun], str]":
    from silobench.cli.sources import Source

    results = Source(directory, published=directory is None).read()
    for problem in results.problems:
        print(f"left out: {problem}", file=sys.stderr)
    return results.runs, str(directory) if directory else "the runs that come with silobench"


def _try(result: "Answer", out: Path, device: str | None) -> None:
    """Run the proposed experiment, and say whether it confirms the advice."""
    from silobench.cli.advise_page import print_trial
    from silobench.cli.results import print_tables
    from silobench.cli.running import run_all

    runs = run_all(result.experiment, out, {"device": device} if device else {}, name="advise")
    print_tables(runs)
    print_trial(result, runs, out)
