"""The stacked engine: train many parties by batched products, on machines without a compiler."""
