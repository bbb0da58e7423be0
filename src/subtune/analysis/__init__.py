"""What the papers compute from run records and Fisher information."""
