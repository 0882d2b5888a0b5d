"""The embedded model: a small transformer whose attention output is DeepSeek-V4.1's in shape."""
