"""The round loop: select a cohort, train it, exchange messages, step the server, test the model. It writes no files."""
