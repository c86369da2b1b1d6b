"""The queue operations of the API, one file each."""
