"""What is asked of segments: matches, additions, pairs, batches."""
