"""Experiments that are wrong, and some that look wrong and are not."""

from wrong_inputs.case import Case, experiment, whole_experiment

FILES = [
    whole_experiment("rounds = 3", 'write dataset = "digits", or another of `silobench list datasets`.'),
    whole_experiment("", 'write dataset = "digits", or another of `silobench list datasets`.'),
    whole_experiment("# nothing but a comment", 'write dataset = "digits", or another of `silobench list datasets`.'),
    whole_experiment("dataset =", 'but a value is missing: write, for example, dataset = "text" or dataset = 10.'),
    whole_experiment("dataset = digits", 'but text needs quotation marks: write dataset = "digits".'),
    whole_experiment('dataset = "digits', "and the file ends; close all quotation marks and brackets."),
    whole_experiment("dataset = 'digits\"", "and the file ends; close all quotation marks and brackets."),
    whole_experiment('dataset "digits"', "write lines as key = value, with text in quotation marks."),
    whole_experiment('dataset == "digits"', "write lines as key = value, with text in quotation marks."),
    whole_experiment('dataset: "digits"', "write lines as key = value, with text in quotation marks."),
    whole_experiment('dataset = "digits", rounds = 3', "write lines as key = value, with text in quotation marks."),
    whole_experiment(
        'dataset = "digits"\ndataset = "fcube"',
        'line 2 is `dataset = "fcube"`, but its key was given before: give each key once.',
    ),
    whole_experiment('[dataset]\nname = "digits"', 'as in dataset = "digits", but a table was given.'),
    whole_experiment(
        "dataset = 3", 'dataset must be text in quotation marks, as in dataset = "digits", but 3 was given.'
    ),
    whole_experiment("dataset = true", 'as in dataset = "digits", but true was given.'),
    whole_experiment('dataset = ""', "'' is not a spec: write name or name(argument=value, ...)."),
    whole_experiment('dataset = "digit"', "there is no dataset 'digit': did you mean digits?"),
    whole_experiment('dataset = "patients.csv"', "there is no file patients.csv: check the path, and write csv("),
    Case(
        '`dataset = "patients.csv"`, which is a file',
        ("run", "mine.toml", "--out", "runs", "--workers", "1"),
        "patients.csv is a file: write csv(path=patients.csv, label=COLUMN), parquet(path=patients.csv, label=COLUMN),",
        files={"mine.toml": 'dataset = "patients.csv"', "patients.csv": "age,label\n1,yes\n"},
    ),
    Case(
        "`run --json` without `--dry-run`",
        ("run", "mine.toml", "--out", "runs", "--json"),
        "--json of run is for a preview: add --dry-run, or show the results with show --json.",
        files={"mine.toml": 'dataset = "digits"'},
    ),
    whole_experiment(
        'dataset = ["fcube", 3]', 'dataset must be text in quotation marks, as in dataset = "digits", but 3 was given.'
    ),
    whole_experiment('dataset = ["fcube", "nothing"]', "there is no dataset 'nothing': choose from adult,"),
    whole_experiment("dataset = 2024-01-01", 'as in dataset = "digits", but the date or time 2024-01-01 was given.'),
    whole_experiment('dataset = {name = "digits"}', 'as in dataset = "digits", but a table was given.'),
    whole_experiment(
        b'dataset = "f\xfccube"', "byte 13 is not UTF-8 text; save the file as UTF-8.", shown="a file in Latin-1"
    ),
    whole_experiment(
        b'\xef\xbb\xbfdataset = "fcube"\nrounds = 1\n', "accuracy", code=0, shown="a file with a byte-order mark"
    ),
    whole_experiment(b'dataset = "fcube"\r\nrounds = 1\r\n', "accuracy", code=0, shown="a file with Windows line ends"),
    whole_experiment(
        b"\x00\x01\x02", "write lines as key = value, with text in quotation marks.", shown="a binary file"
    ),
    whole_experiment(
        "rounds = " + "[" * 5_000 + "]" * 5_000,
        "nested too deeply; write them shorter.",
        shown="lists nested 5,000 deep",
    ),
    whole_experiment("rounds = " + "9" * 5_000, "a number that is too long", shown="a number of 5,000 digits"),
    whole_experiment("x" * 5_000 + " = 1", "an experiment has no key", shown="a key of 5,000 letters"),
    whole_experiment('dataset = "' + "x" * 5_000 + '"', "there is no dataset", shown="a dataset of 5,000 letters"),
    whole_experiment('dataset = "' + "csv(" * 500 + ")" * 500 + '"', "is not a spec", shown="brackets nested 500 deep"),
    whole_experiment(
        'dataset = "fcube"\n'
        + "".join(
            f"{key} = {list(range(1, count + 1))}\n"
            for key, count in {"seed": 200, "rounds": 1000, "parties": 200}.items()
        ),
        "the limit is 100,000: shorten a list, or set SILOBENCH_MAX_RUNS=40000000 to run them all.",
        shown="lists of 200, 1,000 and 200 values: 40 million runs",
    ),
]

LINES = [
    # keys that do not exist
    experiment("rouns = 3", "an experiment has no key 'rouns': did you mean rounds?"),
    experiment("lr = 0.1", 'lr is an argument of solver: write solver = "sgd(lr=...)".'),
    experiment("epochs = 3", 'epochs is an argument of solver: write solver = "sgd(epochs=...)".'),
    experiment("batch_size = 64", 'batch is an argument of solver: write solver = "sgd(batch=...)".'),
    experiment('algorithm = "fedprox"\nmu = 1', 'mu is an argument of algorithm: write algorithm = "fedprox(mu=...)".'),
    experiment(
        'partition = "columns"\ndefence = "marvell"',
        'defence is an argument of algorithm: write algorithm = "split(defence=...)".',
    ),
    experiment(
        'partition = "columns"\nabsent = "drop"',
        'absent is an argument of partition: write partition = "columns(absent=...)".',
    ),
    experiment("Seed = 3", "an experiment has no key 'Seed': did you mean seed?"),
    experiment('"" = 3', "seed, selection, server, solver, split, start, transforms, trials, validation."),
    experiment("ключ = 3", "write lines as key = value, with text in quotation marks."),
    # parts for parties that hold rows, and for parties that hold columns
    experiment(
        'algorithm = "split"',
        """algorithm = 'split' is for parties that hold columns, but iid deals rows: write partition = """
        '"columns(...)", or choose from `silobench list algorithms`.',
    ),
    experiment(
        'partition = "columns(by=block)"\nmodel = "cnn"',
        "model = 'cnn' is for parties that hold rows, but columns(by=block) deals columns: choose from `silobench list "
        "vertical-models`.",
    ),
    # seeds and trials
    experiment("seed = true", "seed must be a whole number, but true was given."),
    experiment("seed = false", "seed must be a whole number, but false was given."),
    experiment("seed = [0, true]", "seed must be a whole number, but true was given."),
    experiment("seed = -1", "seed must be greater than or equal to 0, but -1 was given."),
    experiment("seed = 1.0", "seed must be a whole number, but 1.0 was given."),
    experiment('seed = "0"', "seed must be a whole number, but '0' was given."),
    experiment("seed = 2024-01-01", "seed must be a whole number, but the date or time 2024-01-01 was given."),
    experiment("seed = 07:30:00", "seed must be a whole number, but the date or time 07:30:00 was given."),
    experiment("seed = []", "seed is an empty list: give at least one value."),
    experiment(
        "seed = [1, 2]\ntrials = 3", "seed is a list and trials is 3: give a list of seeds, or one seed and trials."
    ),
    experiment("trials = true", "trials must be a whole number of at least 1, but true was given."),
    experiment("trials = 0", "trials must be a whole number of at least 1, but 0 was given."),
    experiment("trials = -3", "trials must be a whole number of at least 1, but -3 was given."),
    experiment("trials = 2.0", "trials must be a whole number of at least 1, but 2.0 was given."),
    experiment('trials = "3"', "trials must be a whole number of at least 1, but '3' was given."),
    experiment("trials = [1, 2]", "trials must be a whole number of at least 1, but [1, 2] was given."),
    experiment(
        "trials = 1000000000000000000000",
        "shorten a list, or set SILOBENCH_MAX_RUNS=1000000000000000000000 to run them all.",
    ),
    experiment("seed = 123456789012345678901234567890", "accuracy", code=0),
    # numbers
    experiment("rounds = 0", "rounds must be greater than or equal to 1, but 0 was given."),
    experiment("rounds = -1", "rounds must be greater than or equal to 1, but -1 was given."),
    experiment("rounds = 2.5", "rounds must be a whole number, but 2.5 was given."),
    experiment("rounds = true", "rounds must be a whole number, but true was given."),
    experiment('rounds = "many"', "rounds must be a whole number, but 'many' was given."),
    experiment("rounds = nan", "rounds must be a whole number, but nan was given."),
    experiment("rounds = {a = 1}", "rounds must be a whole number, but a table was given."),
    experiment("rounds = [1, [2]]", "rounds must be a whole number, but [2] was given."),
    experiment("parties = 0", "parties must be greater than or equal to 1, but 0 was given."),
    experiment("parties = 5000", "5000 parties cannot share 4000 training rows: take 1 to 4000 parties."),
    experiment("parties = 2.5", "parties must be a whole number, but 2.5 was given."),
    experiment("parties = true", "parties must be a whole number, but true was given."),
    experiment('parties = "ten"', "parties must be a whole number, but 'ten' was given."),
    experiment("parties = 100000000000000000000000", "take 1 to 4000 parties."),
    experiment("participation = 0", "participation must be greater than 0, but 0 was given."),
    experiment("participation = 0.0", "participation must be greater than 0, but 0.0 was given."),
    experiment("participation = 1.5", "but 1.5 was given: a count is a whole number, such as 1."),
    experiment("participation = 2.5", "but 2.5 was given: a count is a whole number, such as 2."),
    experiment("participation = -0.5", "participation must be greater than 0, but -0.5 was given."),
    experiment("participation = true", "participation must be a number, but true was given."),
    experiment("participation = nan", "participation must be a number, but nan was given."),
    experiment("participation = inf", "participation must be less than or equal to 1, but inf was given."),
    experiment('participation = "half"', "participation must be a number, but 'half' was given."),
    experiment("participation = 11", "participation 11 is above the 10 parties: give at most 10, or a fraction."),
    experiment("participation = 100000000000000000000", "give at most 10, or a fraction."),
    experiment("validation = 1.0", "validation must be less than 1, but 1.0 was given."),
    experiment("validation = -0.1", "validation must be greater than or equal to 0, but -0.1 was given."),
    experiment("validation = true", "validation must be a number, but true was given."),
    experiment('validation = "some"', "validation must be a number, but 'some' was given."),
    experiment("validation = 0.99999", "accuracy", code=0),
    experiment("eval_every = 0", "eval_every must be greater than or equal to 1, but 0 was given."),
    experiment("eval_every = true", "eval_every must be a whole number, but true was given."),
    experiment("eval_on = 0", "eval_on must be greater than 0, but 0 was given."),
    experiment("eval_on = 0.0", "eval_on must be greater than 0, but 0.0 was given."),
    experiment("eval_on = true", "eval_on must be a number, but true was given."),
    experiment("eval_on = 100000", "accuracy", code=0),
    # algorithms
    experiment('algorithm = "fedprx"', "did you mean fedprox? An algorithm of your own needs --plugin FILE."),
    experiment('algorithm = "FedAvg()()"', "'FedAvg()()' is not a spec: write name or name(argument=value, ...)."),
    experiment("algorithm = []", "algorithm is an empty list: give at least one value."),
    experiment('algorithm = ["fedavg", 3]', 'such as algorithm = "fedavg", but 3 was given.'),
    experiment('algorithm = [["fedavg"]]', "such as algorithm = \"fedavg\", but ['fedavg'] was given."),
    experiment("algorithm = true", 'such as algorithm = "fedavg", but true was given.'),
    experiment('algorithm = ""', "'' is not a spec: write name or name(argument=value, ...)."),
    experiment('algorithm = "fedprox(mu=-1)"', "fedprox: mu must be greater than or equal to 0, but -1 was given."),
    experiment('algorithm = "fedprox(mu=nan)"', "fedprox: mu must be a number, but 'nan' was given."),
    experiment('algorithm = "fedprox(mu=true)"', "fedprox: mu must be a number, but true was given."),
    experiment('algorithm = "fedprox(mu=1e999)"', "fedprox: mu must be a finite number, but inf was given."),
    experiment(
        'algorithm = "fedprox(0.1, mu=0.2)"', "fedprox: multiple values for argument 'mu'; write fedprox(mu=0.01)."
    ),
    experiment('algorithm = "fedprox(mu=0.1"', "write name(argument=value, ...), with all brackets closed."),
    experiment('algorithm = "fedprox(mu=)"', "write name(argument=value, ...), with all brackets closed."),
    experiment('algorithm = "fedprox(=0.1)"', "write name(argument=value, ...), with all brackets closed."),
    experiment('algorithm = "fedprox(mu=sgd(lr=1))"', "but 'sgd(lr=1)' was given: quote it if it is text."),
    experiment(
        'algorithm = "fedavg + scaffold"',
        "'fedavg + scaffold' is a sum of 2 specs, but a single spec is needed: give one.",
    ),
    experiment(
        'algorithm = "fedavg; import os"', "import os' is not a name: use letters, digits and hyphens, a letter first."
    ),
    experiment(
        'algorithm = "fedavg\\u0000"', "'fedavg\\x00' is not a name: use letters, digits and hyphens, a letter first."
    ),
    experiment(
        'algorithm = "fedavg\\nscaffold"',
        "'fedavg\\nscaffold' has two words side by side: quote text that contains spaces.",
    ),
    experiment('algorithm = "федавг"', "'федавг' is not a name: use letters, digits and hyphens, a letter first."),
    experiment('algorithm = ["fedavg", "fedavg"]', "accuracy", code=0),
    # models
    experiment(
        'model = "cnn"', "height, width) of at least 4 x 4 pixels, but rows have shape (3,): use mlp or linear."
    ),
    experiment('model = "cn"', "there is no model 'cn': did you mean cnn?"),
    experiment('model = "mlp(0)"', "mlp: widths must be greater than or equal to 1, but 0 was given."),
    experiment('model = "mlp(-3)"', "mlp: widths must be greater than or equal to 1, but -3 was given."),
    experiment('model = "mlp(1.5)"', "mlp: widths must be a whole number, but 1.5 was given."),
    experiment('model = "mlp(true)"', "mlp: widths must be a whole number, but true was given."),
    experiment(
        'model = "mlp(1000000, 1000000)"', "because it needs more memory than this machine has: choose a smaller one."
    ),
    experiment(
        'model = "mlp(99999999999999999999)"',
        "because it needs more memory than this machine has: choose a smaller one.",
    ),
    experiment('model = "resnet(depth=7)"', "resnet: depth must be 18, 20 or 50, but 7 was given."),
    experiment(
        'model = "module(path=nowhere.py:Net)"', "give the path of a Python file, as in module(path=model.py:Net)."
    ),
    experiment('model = "lstm(vectors=none)"', "vectors must be glove-50d, or random-50d for random vectors, but None"),
    experiment('model = "bag"', "cannot read rows of numbers: use cnn, mlp or linear."),
    # solvers
    experiment('solver = "sgd(momentum=1)"', "sgd: momentum must be less than 1, but 1 was given."),
    experiment('solver = "sgd(lr=0)"', "sgd: lr must be greater than 0, but 0 was given."),
    experiment('solver = "sgd(lr=fast)"', "sgd: lr must be a number, but 'fast' was given."),
    experiment('solver = "sgd(lr=true)"', "sgd: lr must be a number, but true was given."),
    experiment('solver = "sgd(learning_rate=0.1)"', "sgd has no argument 'learning_rate': did you mean lr?"),
    experiment('solver = "sgd(epochs=0)"', "sgd: epochs must be greater than or equal to 1, but 0 was given."),
    experiment('solver = "sgd(epochs=2.5)"', "sgd: epochs must be a whole number, but 2.5 was given."),
    experiment('solver = "sgd(batch=0)"', "sgd: batch must be greater than or equal to 1, but 0 was given."),
    experiment('solver = "sgd(batch=half)"', "sgd: batch must be a whole number, but 'half' was given."),
    experiment('solver = "sgd(steps=3, epochs=2)"', "sgd: steps=3 and epochs=2 were both given: give one of them."),
    experiment(
        'solver = "sgd(lr=exponential(rate=2))"', "exponential has no argument 'rate': choose from decay, start."
    ),
    experiment('solver = "sgd(lr=nothing())"', "choose from constant, exponential, plateau, polynomial, step, warmup."),
    experiment('solver = "adam(momentum=0.9)"', "adam has no argument 'momentum': did you mean beta1?"),
    experiment('solver = "adam(beta1=1)"', "adam: beta1 must be less than 1, but 1 was given."),
    experiment('solver = "sgd(batch=1000000000)"', "accuracy", code=0),
    # partitions
    experiment('partition = "label-dirichlet"', "'beta'; write label-dirichlet(beta, balance=True, min_size=10)."),
    experiment(
        'partition = "label-dirichlet(beta=0)"', "label-dirichlet: beta must be greater than 0, but 0 was given."
    ),
    experiment(
        'partition = "#C=abc"', "'#C=abc' is not a spec: #C needs a whole number of labels, as in #C=2, so write one."
    ),
    experiment(
        'partition = "#C=2.5"', "'#C=2.5' is not a spec: #C needs a whole number of labels, as in #C=2, so write one."
    ),
    experiment('partition = "Dir(0.5"', "'Dir(0.5' is not a spec: write name(argument=value, ...), with all"),
    experiment('partition = "label-count(k=3)"', "but the dataset has 2: take k <= 2."),
    experiment('partition = "label-count(k=0)"', "label-count: k must be greater than or equal to 1, but 0 was given."),
    experiment(
        'partition = "label-count(2, k=2)"', "label-count: multiple values for argument 'k'; write label-count(k)."
    ),
    experiment('partition = "label-count(k=2, m=3)"', "label-count has no argument 'm': choose from k."),
    experiment('partition = "by-group(level=town)"', "the dataset has no group level 'town': choose from octants."),
    experiment(
        'partition = "octants"\nparties = 3',
        "but rows have shape (3,) and there are 3 parties: use dataset fcube and parties = 4.",
    ),
    experiment('partition = "iid + label-count(k=2)"', "put the label or group skew first."),
    experiment(
        'partition = "iid | noise(sigma=1)"',
        "'iid | noise(sigma=1)' is not a spec: write name or name(argument=value, ...).",
    ),
    experiment('partition = "iid +"', "nothing follows its last +; leave that out, or write one more spec."),
    experiment('partition = "+ iid"', "nothing stands before its first +; leave that out, or write one more spec."),
    experiment('partition = "noise(sigma=-1)"', "noise: sigma must be greater than 0, but -1 was given."),
    experiment(
        'partition = "like(reference=nowhere.csv)"',
        "the reference nowhere.csv cannot be read (No such file or directory): check the path.",
    ),
    experiment('partition = "share(beta=2)"', "accuracy", code=0),
    experiment('partition = ((("iid")))', "write lines as key = value, with text in quotation marks."),
    experiment('partition = "((((iid))))"', "'((((iid))))' is not a spec: write name or name(argument=value, ...)."),
    experiment('partition = "iid()()"', "'iid()()' is not a spec: write name or name(argument=value, ...)."),
    experiment(
        "partition = 1979-05-27T07:32:00Z",
        'such as partition = "iid", but the date or time 1979-05-27T07:32:00+00:00 was given.',
    ),
    experiment('partition = ["iid", "label-count(k=12)"]', "but the dataset has 2: take k <= 2."),
    # transforms, servers, selections, controllers
    experiment("transforms = 1", "transforms must be text in quotation marks, but 1 was given."),
    experiment('transforms = "clip(norm=0)"', "clip: norm must be greater than 0, but 0 was given."),
    experiment('transforms = "clip |"', "nothing follows its last |; leave that out, or write one more spec."),
    experiment('transforms = "| clip"', "nothing stands before its first |; leave that out, or write one more spec."),
    experiment('transforms = "top_k | | sign"', "nothing stands between | and |; leave one of them out, or write one"),
    experiment('transforms = "top_k + sign"', "has + between specs, but a chain needs a bar: write a | b."),
    experiment('transforms = "top_k, sign"', "has a comma between specs, but a chain needs a bar: write a | b."),
    experiment('transforms = "top-k(fraction=2)"', "top-k: fraction must be less than or equal to 1, but 2 was given."),
    experiment("broadcast = 1", "broadcast must be text in quotation marks, but 1 was given."),
    experiment('broadcast = "zip"', "there is no transform 'zip': choose from "),
    experiment(
        'broadcast = "sign | top_k"', "in broadcast, the transform sign rounds the values that are sent, so the"
    ),
    experiment('broadcast = "top_k | low_rank"', "in broadcast, the transform top-k and the transform low-rank cannot"),
    experiment(
        'broadcast = "top-k"\nalgorithm = "bsp"',
        "the algorithm bsp the server sends only what the parties' messages add up to: leave broadcast out, and",
    ),
    experiment(
        'broadcast = "top-k"\nexchange = "gossip"',
        "but the exchange gossip has no server that does: leave broadcast out, or use exchange = star.",
    ),
    experiment('transforms = "zip"', "there is no transform 'zip': choose from clip, error-feedback, gaussian-noise,"),
    experiment('transforms = "quantize(bits=3)"', "quantize: bits must be 2, 4, 8, 16 or 32, but 3 was given."),
    experiment('transforms = "top_k(index=int16)"', "index must be 'auto', 'int32', 'int64' or 'bitmap', but 'int16'"),
    experiment('transforms = "rand_k(fraction=0)"', "rand-k: fraction must be greater than 0, but 0 was given."),
    experiment('transforms = "rand_k(feedback=true)"', "feedback sends later: set one of them to false."),
    experiment('transforms = "sign | error_feedback"', "error_feedback is the last transform, so nothing is lost"),
    experiment('transforms = "error_feedback | top_k"', "the transform top-k keeps it too, so it would be sent twice"),
    experiment(
        'transforms = "error_feedback | error_feedback | sign"', "so it would be sent twice: leave one of them out."
    ),
    experiment('transforms = "error_feedback | rand_k"', "make up for that: write scale=false in it, or leave one of"),
    experiment('transforms = "quantize | top_k"', "the transform top-k cannot come after it: let it come last"),
    experiment('transforms = "top_k | low_rank"', "cannot both choose what is sent, because low_rank needs whole"),
    experiment('server = "adam(lr=-1)"', "adam: lr must be greater than 0, but -1 was given."),
    experiment(
        'server = "sgd"', "there is no server optimizer 'sgd': choose from adagrad, adam, momentum, step, yogi."
    ),
    experiment('buffers = "keep all"', "buffers must be 'average', 'local' or 'keep', but 'keep all' was given."),
    experiment("buffers = true", "buffers must be 'average', 'local' or 'keep', but true was given."),
    experiment('selection = "random"', "choose from by-size, poisson, round-robin, stratified, uniform."),
    experiment('controller = "skewscout"', "use gaia, fedavg(iter_local=...), dgc or top_k."),
    experiment(
        'controller = "skewscout(knob=bits)"',
        "this method has no knob 'bits': use the transform quantize, which has it.",
    ),
    experiment(
        'controller = "skewscout(knob=bits, grid=[5, 12])"\ntransforms = "quantize"',
        "skewscout: 5 is not a setting of bits: choose from 32, 16, 8, 4, 2.",
    ),
    experiment(
        'controller = "skewscout(knob=fraction)"\ntransforms = "quantize"',
        "this method has no knob 'fraction': use the transform top_k or rand_k, which has it.",
    ),
    experiment(
        'controller = "skewscout"\ntransforms = "top_k | clip(norm=1) | gaussian_noise(multiplier=1)"',
        "which the transform gaussian-noise does not protect: use controller = fixed.",
    ),
    experiment(
        'algorithm = "finetune(fedavg)"\nsolver = "dp_sgd(noise=1)"',
        "trains again on the same rows before each test (as finetune does): use the algorithm without that",
    ),
    experiment('controller = "oracle"', "use gaia, fedavg(iter_local=...), dgc or top_k."),
    # networks and exchanges
    experiment("network = 10", 'such as network = "100Mbps", but 10 was given.'),
    experiment(
        'network = "10Mbpss"',
        "'10Mbpss' is not a bandwidth: write kbps, Mbps or Gbps (bits per second)",
    ),
    experiment('network = "10MBps"', "write kbps, Mbps or Gbps (bits per second) after a number."),
    experiment('network = "fast"', "there is no network 'fast': choose from link, mesh."),
    experiment('network = "0Mbps"', "bits per second, written like 100Mbps or 1Gbps, but '0Mbps' was given."),
    experiment('network = "link(bandwidth=10)"', "bits per second, written like 100Mbps or 1Gbps, but '10' was given."),
    experiment(
        'network = "link(bandwidth=fast)"', "bits per second, written like 100Mbps or 1Gbps, but 'fast' was given."
    ),
    experiment('network = "link(latency=-1)"', "link: latency must be greater than or equal to 0, but -1 was given."),
    experiment(
        'network = "-10Mbps"',
        "'-10Mbps' is negative, but a bandwidth is above 0: write it without the minus sign.",
    ),
    experiment('exchange = "ring"', "there is no exchange 'ring': choose from gossip, mesh, star."),
    experiment(
        'exchange = "gossip(graph=nowhere.txt)"',
        "and no file of this name: choose from complete, ring, small-world, torus.",
    ),
    experiment(
        'exchange = "gossip(graph=ladder)"', "and no file of this name: choose from complete, ring, small-world, torus."
    ),
    experiment('exchange = "gossip"\nalgorithm = "scaffold"', "use fedavg, fedprox or fedrs, or exchange = star."),
    experiment('aggregate = "mode"', "there is no aggregate 'mode': choose from krum, mean, median, trimmed-mean."),
    experiment(
        'aggregate = "trimmed-mean(share=0.5)"', "trimmed-mean: share must be less than 0.5, but 0.5 was given."
    ),
    experiment('aggregate = "trimmed-mean(share=2)"', "trimmed-mean: share must be less than 0.5, but 2 was given."),
    experiment(
        'aggregate = "krum(byzantine=-1)"', "krum: byzantine must be greater than or equal to 1, but -1 was given."
    ),
    experiment(
        'aggregate = "krum(byzantine=9)"', "but 10 parties take part: let more take part, or use aggregate = mean."
    ),
    # availability, pace, clock and device
    experiment('availability = "never"', "there is no availability 'never': choose from always, dropout."),
    experiment('availability = "dropout(rate=1)"', "dropout: rate must be less than 1, but 1 was given."),
    experiment(
        'availability = "dropout(rate=-0.1)"', "dropout: rate must be greater than or equal to 0, but -0.1 was given."
    ),
    experiment('availability = "dropout(rate=much)"', "dropout: rate must be a number, but 'much' was given."),
    experiment('adversary = "liar"', "there is no adversary 'liar': choose from label-flip, noise, none, sign-flip."),
    experiment(
        'adversary = "sign-flip(share=2)"', "sign-flip: share must be less than or equal to 1, but 2 was given."
    ),
    experiment('adversary = "noise(deviation=0)"', "noise: deviation must be greater than 0, but 0 was given."),
    experiment(
        'pace = "buffered"', 'the same in every run: set clock, as in clock = "device(speed=1000, spread=0.5)".'
    ),
    experiment(
        'pace = "buffered(size=0)"\nclock = "device"',
        "buffered: size must be greater than or equal to 1, but 0 was given.",
    ),
    experiment(
        'pace = "buffered(size=2.5)"\nclock = "device"', "buffered: size must be a whole number, but 2.5 was given."
    ),
    experiment(
        'pace = "fedasync(staleness=-1)"\nclock = "device"',
        "fedasync: staleness must be greater than or equal to 0, but -1 was given.",
    ),
    experiment('pace = "slow"', "there is no pace 'slow': choose from buffered, fedasync, synchronous."),
    experiment('clock = "fast"', "there is no clock 'fast': choose from device, measured."),
    experiment('clock = "device(speed=0)"', "device: speed must be greater than or equal to 0.001, but 0 was given."),
    experiment(
        'clock = "device(speed=[1000, 500, 0])"',
        "device: entry 3 of speed must be greater than or equal to 0.001, but 0 was given.",
    ),
    experiment('clock = "device(spread=-1)"', "device: spread must be greater than or equal to 0, but -1 was given."),
    experiment(
        'device = "gpu"', "device must be 'auto', 'cpu', 'cuda', 'cuda-nondeterministic' or 'mps', but 'gpu' was given."
    ),
    experiment(
        "device = 0", "device must be 'auto', 'cpu', 'cuda', 'cuda-nondeterministic' or 'mps', but 0 was given."
    ),
    # objectives, splits, metrics, measures, starts
    experiment('objective = "mse"', "choose from auto, binary, cross-entropy, hinge, regression, verification."),
    experiment('objective = "regression"', "as in csv(path=..., label=..., task=regression)."),
    experiment(
        'objective = "cross-entropy(main=auc)"',
        "main must be 'accuracy', 'balanced-accuracy' or 'macro-f1', but 'auc' was given.",
    ),
    experiment(
        'objective = "cross-entropy(weights=heavy)"',
        "cross-entropy: weights must be 'equal' or 'balanced', but 'heavy' was given.",
    ),
    experiment(
        'objective = "binary(positive=7)"', "fcube has no class '7' to be positive: choose from x1 <= 0, x1 > 0."
    ),
    experiment('objective = "hinge(margin=-1)"', "hinge: margin must be greater than or equal to 0, but -1 was given."),
    experiment("objective = 3", 'such as objective = "auto", but 3 was given.'),
    experiment('split = "80"', 'test and validation rows, but "80" was given: write, for example, split = "10:1:1".'),
    experiment('split = "0:1"', 'test and validation rows, but "0:1" was given: write, for example, split = "10:1:1".'),
    experiment('split = "8:1:1:1"', 'but "8:1:1:1" was given: write, for example, split = "10:1:1".'),
    experiment('split = "a:b"', 'test and validation rows, but "a:b" was given: write, for example, split = "10:1:1".'),
    experiment("split = 0.8", 'split must be text in quotation marks, such as split = "given", but 0.8 was given.'),
    experiment('metric = "accurcy"', "there is no metric 'accurcy': did you mean top-accuracy?"),
    experiment("metric = 3", "metric must be text or a list of texts, but 3 was given."),
    experiment("metric = [3]", "metric must be text in quotation marks, but 3 was given."),
    experiment('measure = "norms"', "choose from accuracy-loss, canaries, inversion, membership, norm-divergence, "),
    experiment("measure = 3", "measure must be text or a list of texts, but 3 was given."),
    experiment("measure = [true]", "measure must be text in quotation marks, but true was given."),
    experiment(
        'start = "run(path=nowhere)"',
        "there is no run at nowhere: give the directory of one, as run(path=runs/01234...).",
    ),
    experiment(
        'start = "centralised"', "missing a required argument: 'rounds'; write centralised(rounds, batch=None)."
    ),
    experiment(
        'start = "centralised(rounds=0)"', "centralised: rounds must be greater than or equal to 1, but 0 was given."
    ),
    # models of parties' own
    experiment('algorithm = "ditto(lam=-1)"', "lam must be greater than or equal to 0, but -1 was given."),
    experiment('algorithm = "apfl(alpha=2)"', "alpha must be less than or equal to 1, but 2 was given."),
    experiment('algorithm = "fedper(layers=0)"', "accuracy", code=0),
    experiment('algorithm = "fedrep(head=nothing)"', "fedrep has no argument 'head': did you mean head_epochs?"),
    experiment('algorithm = "perfedavg(alpha=0)"', "alpha must be greater than 0, but 0 was given."),
    experiment('algorithm = "pfedme(lam=0)"', "lam must be greater than 0, but 0 was given."),
    experiment(
        'algorithm = "finetune"', "missing a required argument: 'algorithm'; write finetune(algorithm, epochs=1)."
    ),
    experiment(
        'algorithm = "finetune(nothing)"',
        "there is no algorithm 'nothing': choose from",
    ),
    experiment(
        'algorithm = "finetune(fedavg, epochs=0)"', "epochs must be greater than or equal to 1, but 0 was given."
    ),
    experiment('algorithm = "finetune(fedavg(mu=1))"', "fedavg has no argument 'mu'"),
    experiment('algorithm = "finetune(finetune(fedavg))"', "leave one of the two out."),
    experiment('algorithm = "finetune(3)"', "but 3 was given."),
    experiment('algorithm = "fedper"\nmodel = "linear"', "give fewer layers, or use a network with more."),
    experiment('algorithm = "ditto"\nexchange = "gossip"', "use fedavg, fedprox or fedrs, or exchange = star."),
    experiment('algorithm = "moon"\nobjective = "hinge"', "take an algorithm without, such as fedavg."),
    experiment('metric = ["specificity", "nothing"]', "there is no metric 'nothing': choose from"),
    experiment('objective = "binary(main=rmse)"', "but 'rmse' was given."),
    experiment('objective = "hinge(squared=3)"', "squared must be true or false, but 3 was given."),
    experiment('model = "module"', "missing a required argument: 'path'"),
    experiment('model = "module(path=nowhere)"', "give the path of a Python file, as in module(path=model.py:Net)."),
    # grids and scales
    experiment("grid = 3", "grid must be a list of tables: write [[grid]] above each."),
    experiment('[grid]\nalgorithm = "fedavg"', "grid must be a list of tables: write [[grid]] above each."),
    experiment("[[grid]]\ngrid = [1]", "an experiment has no key 'grid': a [[grid]] table cannot contain another one."),
    experiment('[[grid]]\nalgoritm = "fedavg"', "an experiment has no key 'algoritm': did you mean algorithm?"),
    experiment("scale = 3", "scale must be tables of choices: write [scale.smoke] above those of the scale smoke."),
    experiment(
        "[scale]\nsmoke = 3", "scale must be tables of choices: write [scale.smoke] above those of the scale smoke."
    ),
    experiment('title = "mine"', "accuracy", code=0),
    experiment("grid = []", "accuracy", code=0),
]

CASES: list[Case] = [*FILES, *LINES]
