"""``silobench silo``: a consortium of organisations that train one model, each on its own rows."""

import json
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import Json, Out
from silobench.cli.output import print

if TYPE_CHECKING:
    from silobench.silos.consortium import Consortium

_LOG = logging.getLogger(__name__)
_MONTH = 30 * 24 * 3600.0  # seconds

app = typer.Typer(
    name="silo",
    help="Train one model between organisations: the lead runs `columns`, `init` and `serve`, each silo `key`, `check` "
    "and `start`. Rows stay where they are.",
    no_args_is_help=True,
)


def _finite(seconds: float) -> float:
    if math.isnan(seconds):  # which is neither below a limit nor above one
        raise typer.BadParameter("'nan' is not in the range.")
    return seconds


def _seconds(text: str) -> Any:
    return typer.Option(min=0.1, max=_MONTH, callback=_finite, help=text)


SiloFile = Annotated[Path, typer.Argument(metavar="SILO.toml", help="The private file that `silo key` wrote.")]
Root = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `silo init` wrote.")]
Hosts = Annotated[
    list[str],
    typer.Option("--host", help="Host name or IP address by which silos reach the server. Repeatable."),
]


@app.command()
def columns(
    sample: Annotated[
        str,
        typer.Argument(
            metavar="FILE|SPEC", help="A CSV or Parquet file with a silo's columns, or a spec such as images(path=DIR)."
        ),
    ],
    label: Annotated[str, typer.Option(help="Column that is to be predicted.")],
    drop: Annotated[list[str] | None, typer.Option(help="Column that is not a feature. Repeatable.")] = None,
    test: Annotated[float, typer.Option(help="Share of the rows that each silo holds out for tests.")] = 0.2,
    scale: Annotated[
        str, typer.Option(help="Scale of numbers: standard (from sums of all silos), stated (in the file) or none.")
    ] = "standard",
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    output: Annotated[Path, typer.Option("--output", "--out", help="The file to write.")] = Path("columns.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write what all silos agree on about their columns, from a sample file; the lead then edits it.

    The sample may be invented: only the form of its columns counts, unless the scale is stated.
    """
    from silobench.errors import ConfigError

    if output.exists() and not force:
        raise ConfigError(f"{output} exists already: name another file with --out, or replace it with --force.")
    with waiting("reading the sample"):
        from silobench.data.agreed import sample_of

        draft: Any = sample_of(sample, label, drop=tuple(drop or ()), test=test, scale=scale, task=task)  # type: ignore[arg-type]
    output.write_text(draft.columns.text(), encoding="utf-8")
    for note in draft.notes:
        print(note)
    print(f"wrote {output}: read it, correct what does not hold for all silos, and show it to them.")


@app.command()
def key(
    name: Annotated[str, typer.Argument(help="Name of this silo: letters, digits, - and _.")],
    data: Annotated[str, typer.Option(help="This silo's rows: a path, or a spec such as csv(path=FILE, sep=tab).")],
    folder: Annotated[Path, typer.Option("--folder", help="Private folder to write into.")] = Path("silo"),
    json_: Json = False,
) -> None:
    """Make a silo's key pair and its private file silo.toml. The lead needs the public key, and nothing else."""
    with waiting("making a key"):
        from silobench.silos.flower.folders import write_silo
        from silobench.silos.keys import fingerprint

        line = write_silo(folder, name, data)
    public = folder / "key.pub"
    if json_:
        print(json.dumps({"public_key": str(public), "fingerprint": fingerprint(line)}, indent=1))
        return
    print(f"wrote {folder}/silo.toml and {folder}/key, which never leave this machine.")
    print(f"send {public} to the lead, and compare its fingerprint by phone: {fingerprint(line)}")


@app.command()
def init(
    experiment: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Experiment with one cell, without dataset.")],
    columns: Annotated[Path, typer.Option("--columns", help="File of `silo columns`, as agreed.")],
    silo: Annotated[
        list[str],
        typer.Option("--silo", metavar="NAME=FILE.pub", help="A silo and its public key. Repeatable, in party order."),
    ],
    host: Hosts,
    name: Annotated[str, typer.Option(help="Name of the consortium.")] = "consortium",
    quorum: Annotated[
        int | None, typer.Option(min=1, help="Silos that must answer in a round. Default: more than half of them.")
    ] = None,
    join_seconds: Annotated[float, _seconds("How long the server waits for the quorum at the start.")] = 3600,
    round_seconds: Annotated[float, _seconds("How long the server waits for the answers of a round.")] = 3600,
    grace_seconds: Annotated[float, _seconds("How long it waits for the others, once the quorum has answered.")] = 30,
    engine: Annotated[str, typer.Option(help="Engine that trains at each silo.")] = "auto",
    out: Annotated[Path, typer.Option("--out", "--output", help="New folder to write into.")] = Path("consortium"),
    json_: Json = False,
) -> None:
    """Write a consortium: the signed agreement and Flower app for all, and keys and certificates for the lead."""
    with waiting("writing the consortium"):
        from silobench.silos.consortium import Waits
        from silobench.silos.flower import proposal
        from silobench.silos.flower.folders import write_folders

        texts = (proposal.experiment_text(experiment), proposal.columns_text(columns))
        silos = proposal.silo_keys(silo)
        proposal.check_options(name, silos, quorum)
        waits = Waits(join=join_seconds, round=round_seconds, grace=grace_seconds)
        choices: dict[str, Any] = {"quorum": quorum, "engine": engine, "waits": waits}
        consortium = write_folders(out, name, silos, *texts, host, **choices)
    _print_consortium(out, consortium, json_)


@app.command()
def sign(root: Root, json_: Json = False) -> None:
    """Sign the consortium again after the lead has changed its files. Every silo must accept it anew."""
    from silobench.silos.flower.folders import Folders, signed_again

    folders = Folders(root).checked()
    _print_consortium(root, signed_again(folders), json_)


def _print_consortium(root: Path, consortium: "Consortium", json_: bool) -> None:
    from silobench.cli.silo_offer import fingerprints
    from silobench.silos.flower.folders import Folders

    shared = Folders(root).shared
    facts = {"digest": consortium.digest, **fingerprints(consortium)}
    if json_:
        print(json.dumps({"folder": str(shared), **facts}, indent=1))
        return
    from silobench.cli.terminal import print_facts

    print_facts(facts)
    print(f"send {shared} to every silo; compare the digest and its key's fingerprint with each of them by phone.")
    print(f"keep {Folders(root).private} secret. Start with `silobench silo serve {root}`.")


@app.command()
def renew(root: Root, host: Hosts) -> None:
    """Make a new certificate of the server, when the old one expires or its host name changes."""
    from silobench.silos.flower import certificates
    from silobench.silos.flower.folders import Folders, renew

    folders = Folders(root).checked()
    renew(folders, host)
    print(f"the certificate holds until {certificates.last_day(folders.private / certificates.SERVER)}.")
    print("start `silobench silo serve` again; silos need nothing new.")


@app.command()
def check(
    silo: SiloFile,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the consortium as it is now.")] = False,
    json_: Json = False,
) -> None:
    """Show a silo what the consortium will do, and what will leave the silo; with --accept, agree to it."""
    with waiting("reading the consortium and the rows"):
        from silobench.cli.silo_offer import Offer
        from silobench.silos.silo_file import accept as write_acceptance

        offer = Offer.read(silo)
        if accept:
            write_acceptance(silo, offer.consortium.digest)
            offer = Offer.read(silo)
    if json_:
        print(json.dumps(offer.as_json(), indent=1))
        return
    from silobench.cli.terminal import print_facts, print_table

    print_facts(offer.facts)
    print_table(offer.table)
    if accept:
        print("accepted. Nothing leaves before `silobench silo start`; a change of the consortium needs a new check.")
    else:
        print(f"compare the digest with the lead by phone. To agree: `silobench silo check {silo} --accept`.")


@app.command()
def start(
    silo: SiloFile,
    superlink: Annotated[str, typer.Option("--superlink", metavar="HOST:PORT", help="The lead's server.")],
) -> None:
    """Take part: answer the server's letters until Ctrl-C. Rows, memory and keys stay in this process and its folder.

    Start it again at any time: it goes on where it was. Its log has one line for each letter.
    """
    with waiting("reading the rows"):
        from silobench.silos.flower.environment import require_flower
        from silobench.silos.flower.folders import authority_of
        from silobench.silos.flower.starting import address_of, serve_silo
        from silobench.silos.silo_file import check_accepted

        address_of(superlink)
        require_flower()
        check_accepted(silo)
        from silobench.silos.silo import Silo

        site = Silo.open(silo)
        authority, rows = authority_of(site.consortium), site.rows
    _LOG.info("%s takes part with %d training rows; Ctrl-C ends it.", site.file.name, len(rows.train))
    serve_silo(site.answer, superlink, site.file.key, authority, site.file.state)


@app.command()
def serve(
    root: Root,
    address: Annotated[str, typer.Option("--address", help="Address to listen on: 0.0.0.0 is all.")] = "0.0.0.0",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port that silos reach.")] = 9092,
    out: Out = Path("runs"),
) -> None:
    """Serve a consortium as its lead: wait for silos, run the rounds, and write an ordinary run directory.

    After an interruption, the same command goes on with the same run.
    """
    with waiting("reading the consortium"):
        from silobench.silos.flower.environment import require_flower
        from silobench.silos.flower.folders import Folders

        require_flower()
        from silobench.silos.consortium import Consortium
        from silobench.silos.flower.serving import Office, is_over
        from silobench.silos.flower.serving import serve as serving
        from silobench.silos.server import FOLDER, plan_of

        folders = Folders(root).checked()
        consortium = Consortium.read_signed(folders.shared)
        place = out / plan_of(consortium).id
    if is_over(place / FOLDER, consortium.digest):
        print("the run is finished, and its silos know it; another --out starts a new one.")
    else:
        office = Office(folders.shared, folders.private, address, port)
        for line in serving(office, [silo.key for silo in consortium.silos], out):
            print(line, flush=True)
    print(f"run: {place.resolve()}")
    print(f"report: `silobench report {out}`")
