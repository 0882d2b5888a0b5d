"""How good the verifier is: planted faults that it must catch, honest kernels that must pass."""
