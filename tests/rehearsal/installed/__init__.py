"""The distributions as they are installed outside a checkout."""
