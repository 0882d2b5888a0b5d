"""Both arms score the same fixed texts: sharper than accuracy, and never in its place."""
