"""Fuzzing: bytes that nobody would write are handed to everything that reads bytes.

    python -m fuzz [TARGET...] --inputs N --seed S

A `Target` reads bytes as silobench does. A `Guard` surrounds each input: silobench may refuse it in one sentence, and
nothing else may happen. Three drivers make the inputs: atheris (guided by coverage, where it is installed), hypothesis
(structured, where a target has a strategy) and a seeded mutator of the target's seeds.
"""
