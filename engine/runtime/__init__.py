"""What a user holds: programs, decoders, states, and the reports about them."""
