"""Who may do what: policies in the language of IAM, compiled and evaluated."""
