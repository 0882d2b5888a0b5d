"""From a run folder to the page a reviewer reads."""
