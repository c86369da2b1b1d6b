"""Other servers that speak SQS, put to the same work as ours in the same run."""
