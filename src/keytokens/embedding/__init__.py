"""The trained-embedding model on token counts: N (n, V) in, a token logit and a token value out.

The sentence enters only through its counts, so everything here works on one sparse matrix:
scores (the fitted model), kernels (one fused pass), frequencies (the theory's statistics),
one_step, p_training (by the steps of chebyshev) and joint (how to train it).
"""
