"""What is stored about a run and the machine it ran on, and how it is read back."""
