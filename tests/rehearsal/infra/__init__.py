"""What infra/ synthesises: templates against what the code needs, and against AWS's rules."""
