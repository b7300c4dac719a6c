"""Additive encryption of arrays: CKKS (by TenSEAL) and Paillier (on gmpy2), for what crosses a cut or builds histograms."""
