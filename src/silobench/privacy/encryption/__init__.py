"""Additive encryption of arrays: CKKS (by TenSEAL) and Paillier (on gmpy2), for cuts and histograms."""
