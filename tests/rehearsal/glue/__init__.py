"""What AWS Glue does with a deployed job, on this machine: see job.py."""
