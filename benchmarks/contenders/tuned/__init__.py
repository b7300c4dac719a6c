"""The best loop that we can write by hand in torch for each workload: same maths, no generality.

Each file explains what it exploits. All of them hard-code what silobench reads from a configuration: the architecture,
full participation, parties of equal size, no weight decay.
"""
