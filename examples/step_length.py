"""A measure of your own: how far the server's model moves in a round, and how straight its way has been.

    silobench run experiment.toml --plugin examples/step_length.py --set measure=step_length

Every line of rounds.jsonl then has {"measures": {"step-length": {"length": ..., "straight": ...}}}.
"""

from silobench import Course, Measure, Memory, RoundRecord
from silobench.measures import MEASURES
from silobench.training.state import State


@MEASURES.register
def step_length() -> Measure:
    """The length of each round's step, and the distance from the start by the length of the way there (at most 1)."""

    def begin(course: Course, state: State | None, memory: Memory):  # type: ignore[no-untyped-def]
        start = course.setting.task.initial
        here = state.server.params if state else start
        way = float(memory["way"]) if memory else 0.0

        def observe(record: RoundRecord) -> tuple[dict[str, float], Memory]:
            nonlocal here, way
            after = record.state.server.params
            length = float((after - here).norm())
            here, way = after, way + length
            straight = float((after - start).norm()) / way if way else 1.0
            return {"length": length, "straight": straight}, {"way": here.new_tensor(way)}

        return observe

    return Measure(begin)
