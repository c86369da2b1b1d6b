"""From an HTTP request to an HTTP response: the stages that every request passes."""
