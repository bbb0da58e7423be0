"""Numbers from run records and Fisher information."""
