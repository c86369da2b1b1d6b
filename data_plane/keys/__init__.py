"""Adapters of the MasterKeys port: a key file, and KMS."""
