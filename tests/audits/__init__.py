"""Services in virtual time, what happens to them and is done to them, put before the audit."""
