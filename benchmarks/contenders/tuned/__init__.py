"""The best that we know to write by hand for each workload in torch: same maths, no generality.

What each file exploits is said in it. All of them know beforehand what silobench learns from a configuration: the
architecture, that every party takes part, that parties are of equal size, that there is no weight decay.
"""
