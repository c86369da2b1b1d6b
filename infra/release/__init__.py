"""What a release is made of: versions, wheels that are the same twice, a bill of materials."""
