"""Serving speed of two arms: streams timed as their bytes arrive, compared start by start."""
