"""Statistics of paired comparisons: plain arrays and counts in, small result objects out."""
