"""From simulated recordings to models and the rules that turn their scores into decisions."""
