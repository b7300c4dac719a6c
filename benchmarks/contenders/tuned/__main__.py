import sys
from pathlib import Path

import torch

from contenders.gate import Gate
from contenders.tuned import cnn, logistic, perceptron, sparse
from workloads import read


def main(folder: Path, warm_up: int) -> None:
    gate = Gate(warm_up)
    material = read(folder)
    torch.manual_seed(0)
    if material.workload.widths is None:
        run = cnn.run
    elif not material.workload.widths:
        run = logistic.run
    else:
        run = sparse.run if isinstance(material.train.x, tuple) else perceptron.run
    run(material, gate)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
