"""A measure of your own: how far the server's model moves in each round, and how straight its path is.

    silobench run experiment.toml --plugin examples/step_length.py --set measure=step_length

Every line of rounds.jsonl then has {"measures": {"step-length": {"length": ..., "straight": ...}}}. `silobench show`
has a table of the last values, and `silobench report` draws them over rounds.
"""

from collections.abc import Callable

import silobench as sb


@sb.MEASURES.register
def step_length() -> sb.Measure:
    """The length of each round's step; and the distance from the start, divided by the path length (at most 1)."""

    def begin(
        course: sb.Course, state: sb.State | None, memory: sb.Memory
    ) -> Callable[[sb.RoundRecord], tuple[dict[str, float], sb.Memory]]:
        start = course.setting.task.initial
        before = state.server.params if state else start  # a resumed run has a state and a memory
        path = float(memory["path"]) if memory else 0.0

        def observe(record: sb.RoundRecord) -> tuple[dict[str, float], sb.Memory]:
            nonlocal before, path
            after = record.state.server.params
            length = float((after - before).norm())
            before, path = after, path + length
            straight = float((after - start).norm()) / path if path else 1.0
            return {"length": length, "straight": straight}, {"path": after.new_tensor(path)}

        return observe

    return sb.Measure(begin)
