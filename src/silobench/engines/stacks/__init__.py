"""The stacked engine: many parties as the leading axis of batched products, without a compiler."""
