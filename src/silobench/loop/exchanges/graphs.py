"""Graphs over parties: who exchanges models with whom, and with which weights."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from silobench.errors import ConfigError, suggest

Weights: TypeAlias = Mapping[int, Mapping[int, float]]  # by party: those of its neighbours
GRAPHS = ("ring", "torus", "complete", "small-world")


def content_of(graph: str) -> str | None:
    """Return the content of a graph's file; None for a graph that has a name."""
    path = Path(graph)
    if graph in GRAPHS:
        return None
    if not path.is_file():
        raise ConfigError(f"there is no graph '{path}', and no file of this name: {suggest(str(path), GRAPHS)}")
    try:
        return path.read_text(encoding="utf-8")
    except (ValueError, OSError) as error:
        raise ConfigError(_not_a_graph(graph)) from error


@lru_cache(maxsize=4)
def edges_of(graph: str, parties: int, seed: int, content: str | None = None) -> frozenset[tuple[int, int]]:
    """Return the edges of a connected graph over all parties, each once and without loops.

    `content` is that of the graph's file, if it is one.
    """
    import networkx as nx  # takes a third of a second to load

    built: Any
    if content is not None:
        built = _parsed(graph, content, parties)
    elif graph == "small-world" and parties > 2:
        built = nx.connected_watts_strogatz_graph(parties, min(4, parties - 1), 0.1, tries=100, seed=seed)
    elif graph == "torus":
        rows = max(side for side in range(1, int(parties**0.5) + 1) if parties % side == 0)
        built = nx.convert_node_labels_to_integers(
            nx.grid_2d_graph(rows, parties // rows, periodic=True), ordering="sorted"
        )
    else:
        built = nx.complete_graph(parties) if graph == "complete" else nx.cycle_graph(parties)
    edges = frozenset((min(edge), max(edge)) for edge in built.edges if edge[0] != edge[1])
    if parties > 1 and (len(built) != parties or not nx.is_connected(built)):
        raise ConfigError(f"the graph {graph} does not connect all {parties} parties: add edges between its parts.")
    return edges


def _not_a_graph(file: str) -> str:
    return f"{file} is not a list of edges: write two party numbers per line, such as 0 1."


def _parsed(file: str, content: str, parties: int) -> Any:
    """Return the graph of a file of edges."""
    import networkx as nx

    try:
        edges = [tuple(map(int, line.split())) for line in content.splitlines() if line.strip()]
    except ValueError as error:
        raise ConfigError(_not_a_graph(file)) from error
    for edge in edges:
        if len(edge) != 2 or not all(0 <= party < parties for party in edge):
            raise ConfigError(
                f"{file} has the edge '{' '.join(map(str, edge))}': write two party numbers per line, from 0 to "
                f"{parties - 1}."
            )
    built = nx.Graph(edges)
    built.add_nodes_from(range(parties))
    return built


@lru_cache(maxsize=4)
def metropolis(edges: frozenset[tuple[int, int]]) -> Weights:
    """Return the weights of each party's neighbours, in the order of their numbers."""
    neighbours: dict[int, set[int]] = {}
    for a, b in edges:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    degree = {party: len(others) for party, others in neighbours.items()}
    weights = {p: {q: 1 / (1 + max(degree[p], degree[q])) for q in sorted(others)} for p, others in neighbours.items()}
    return weights or {0: {}}  # a single party has no neighbours
