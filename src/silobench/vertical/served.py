"""`ServedNetwork`: a split network as it answers new rows, when activations cross the cut as they do in training."""

from torch import Tensor, nn

from silobench.vertical.crossing import Batch, Crossing, sent_rows, spread, taken
from silobench.vertical.networks import SplitNetwork

_FIRST = 1 << 20  # steps of training are below it, so a test has random numbers of its own


class ServedNetwork(nn.Module):
    """A split network whose activations go through a defence and transforms, with other random numbers per batch."""

    def __init__(self, network: SplitNetwork, crossing: Crossing, label: int, seed: int, round: int):
        super().__init__()
        self.network, self.crossing, self.label = network, crossing, label
        self.batch = Batch(seed, round, _FIRST)

    def forward(self, x: Tensor) -> Tensor:
        activations = self.network.activations(x)
        rows = {party: sent_rows(self.network, x, party) for party in range(len(activations)) if party != self.label}
        sent = {party: taken(activations[party], each) for party, each in rows.items()}
        for party, tensor in self.crossing.up(sent, self.batch).arrived.items():
            activations[party] = spread(tensor, rows[party], len(x))
        self.batch = Batch(self.batch.seed, self.batch.round, self.batch.step + 1)
        return self.network.head(activations, self.network.flags(x))  # type: ignore[no-any-return]
