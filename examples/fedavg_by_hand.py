"""FedAvg in plain Python, to show the whole loop. silobench only loads the data and splits them among parties.

    python examples/fedavg_by_hand.py

`silobench.rounds` is this loop with three of its steps (start, message, absorb) turned into hooks. FedProx, SCAFFOLD
and FedNova are then a few lines each instead of a copy of the loop.
"""

import numpy as np
import torch
from torch import nn

import silobench as sb

digits = sb.load("digits")
federation = sb.federate(digits, "label-dirichlet(beta=0.5)", parties=10, seed=0)
print("rows per party:", [party.samples for party in federation.parties])

torch.set_num_threads(1)  # the batches are small: more threads would only wait for each other
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
params = torch.nn.utils.parameters_to_vector(model.parameters()).detach()  # the global model as one flat vector
x_test, y_test = torch.from_numpy(digits.test.x), torch.from_numpy(digits.test.y)
shuffle = np.random.default_rng(0)

for round in range(1, 11):
    total, weight = torch.zeros_like(params), 0

    for party in federation.parties:
        # start: the party gets the server's model and a new optimizer
        torch.nn.utils.vector_to_parameters(params.clone(), model.parameters())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        for _ in range(5):  # local epochs on the party's own rows
            order = torch.from_numpy(shuffle.permutation(party.samples))
            for rows in party.rows[order].split(32):
                x, y = federation.batch(rows)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()

        # message: the party's change, weighted by its number of rows; the server sees only the sum
        delta = torch.nn.utils.parameters_to_vector(model.parameters()).detach() - params
        total += party.samples * delta
        weight += party.samples

    # absorb: the server moves by the weighted mean of the changes
    params = params + total / weight

    torch.nn.utils.vector_to_parameters(params.clone(), model.parameters())
    accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"round {round:2d}: test accuracy {accuracy:.3f}")
