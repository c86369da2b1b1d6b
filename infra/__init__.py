"""Tidegate in an AWS account: CloudFormation stacks, written with the AWS CDK.

`python -m infra` synthesises them, as `cdk.json` says; docs/operations.md, *Deploying*, how to use
it. What a stage decides is in `options.py`, and how a table looks in data_plane/dynamodb/tables.py.
"""
