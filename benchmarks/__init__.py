"""What training and Fisher information cost here, beside their peers in the same run."""
