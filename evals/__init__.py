"""Benchmarks as data (one folder a suite), their graders, and the embedded model."""
