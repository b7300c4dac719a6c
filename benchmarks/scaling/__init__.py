"""What runs with many parties cost: measurements, a model of few terms that is fitted to them, and its predictions."""
