"""The deployment, rehearsed as an operator does it: the CDK's command line, on an emulator."""
